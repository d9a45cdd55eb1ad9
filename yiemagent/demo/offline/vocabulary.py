"""The names in the cellar and the words people use for them, found in a question."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from yiemagent.demo.cellar.database import Wine, all_wines
from yiemagent.demo.cellar.pairing import DISHES
from yiemagent.demo.cellar.synonyms import GRAPE_FAMILIES, PLACE_COUNTRIES, place_name
from yiemagent.demo.cellar.wording import fold, words
from yiemagent.demo.offline.phrasing import COLOUR_WORDS, ORDER_WORDS, PLACE_ALIASES, is_taste

__all__ = ["Category", "Spot", "spot"]

Category: TypeAlias = Literal["grape", "region", "country", "colour", "order", "wine", "food", "taste"]

_LONGEST = 9
_GENERIC = frozenset(
    words(
        """
        chateau domaine domaines bodegas bodega weingut clos cru grand premier 1er brut reserva reserve gran
        crianza rouge blanc rosso bianco tinto blanco rosado vintage cuvee special estate wines wine winery
        cellars classico classic superiore label silver original old year 10 20 the la le les de du des d l
        il di dei del della y et und trocken dry sec selezione kabinett auslese collection vieilles vignes
        valley county high mountain collection series art nectar branco pere fils no 41 5 o tenuta tenute
        royal wild aszu puttonyos summit quinta single noble gentil
        """
    )
)
_EVERYDAY = frozenset(
    words(
        """
        alta anada bay blancs bourgeois castello chambers charles classe corse cote descendientes etichetta
        famille francia grace gregorio hamilton heights henri imperial jacques jean joseph klein lieu louis
        marcel nectar nicolas prestige produttori rafael robert russell salmon spleen superieur vincent vines
        william
        """
    )
)
"""Parts of names that mean something else when they stand alone."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A known phrase in a question: tokens ``start`` to ``end`` (excluded)."""

    category: Category
    value: str
    start: int
    end: int
    wines: frozenset[int] = frozenset()
    """For a wine's name: the ids it may mean."""


def spot(tokens: list[str]) -> list[Spot]:
    """The known phrases in *tokens*, longest first at each place, none overlapping another."""
    singulars = [_singular(token) for token in tokens]
    found: list[Spot] = []
    at = 0
    while at < len(tokens):
        hit = _longest(singulars, at)
        if hit is None:
            at += 1
            continue
        found.append(hit)
        at = hit.end
    return found


def _longest(singulars: list[str], at: int) -> Spot | None:
    for length in range(min(_LONGEST, len(singulars) - at), 0, -1):
        entry = _phrases().get(tuple(singulars[at : at + length]))
        if entry is not None:
            category, value, wines = entry
            return Spot(category, value, at, at + length, wines)
    return None


_Entry: TypeAlias = tuple[Category, str, frozenset[int]]


@functools.cache
def _phrases() -> Mapping[tuple[str, ...], _Entry]:
    table: dict[tuple[str, ...], _Entry] = {}

    def add(category: Category, phrases: Iterable[tuple[str, str]]) -> None:
        for phrase, value in phrases:
            table.setdefault(_key(phrase), (category, value, frozenset()))

    cellar = all_wines()
    add("taste", (("orange wine", "amber"), ("amber wine", "amber")))
    add("order", ORDER_WORDS.items())
    add("colour", COLOUR_WORDS.items())
    add("grape", ((grape, grape) for wine in cellar for grape in wine.grapes))
    add("grape", ((name, name) for family in GRAPE_FAMILIES for name in sorted(family)))
    add("country", ((wine.country, wine.country) for wine in cellar))
    add("country", ((name, place_name(name)) for name in PLACE_COUNTRIES))
    add("region", ((place, place) for wine in cellar for place in (wine.region, wine.appellation)))
    add("region", PLACE_ALIASES.items())
    for phrase, wines in _wine_phrases(cellar).items():
        table.setdefault(_key(phrase), ("wine", phrase, wines))
    add("food", DISHES.items())
    return table


def _wine_phrases(cellar: Iterable[Wine]) -> dict[str, frozenset[int]]:
    meant: dict[str, set[int]] = {}
    for wine in cellar:
        producer, name = words(wine.producer), words(wine.name)
        short_producer, short_name = _core(producer), _core(name)
        phrases = {
            " ".join(parts)
            for parts in (
                producer if short_producer else [],
                short_producer,
                short_producer[:1] if len(short_producer) > 1 and len(short_producer[0]) > 5 else [],
                short_producer[-1:] if len(short_producer) > 1 and len(short_producer[-1]) > 5 else [],
                name if short_name else [],
                short_name,
                producer + name,
                short_producer + name,
                short_producer + short_name,
            )
        }
        for phrase in phrases - {""} - _EVERYDAY:
            meant.setdefault(phrase, set()).add(wine.id)
    return {phrase: frozenset(ids) for phrase, ids in meant.items()}


def _core(name: list[str]) -> list[str]:
    """What is left of a name without the words that many labels share, or nothing."""
    places = _place_words()
    kept = list(name)
    while kept and (kept[0] in _GENERIC or kept[0] in places):
        kept.pop(0)
    while kept and (kept[-1] in _GENERIC or kept[-1] in places):
        kept.pop()
    if len(kept) == 1 and (len(kept[0]) < 4 or kept[0] in _EVERYDAY or is_taste(kept[0])):
        return []
    return kept


@functools.cache
def _place_words() -> frozenset[str]:
    texts = (
        f"{wine.region} {wine.appellation} {' '.join(wine.grapes)} {wine.country}" for wine in all_wines()
    )
    return frozenset(word for text in texts for word in words(text))


def _key(phrase: str) -> tuple[str, ...]:
    return tuple(_singular(token) for token in fold(phrase).split())


def _singular(token: str) -> str:
    return token[:-1] if len(token) > 3 and token.endswith("s") and not token.endswith("ss") else token
