"""Which wines fit: exact limits become SQL, words are matched against names, places and notes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from yiemagent.demo.cellar.database import Wine, select
from yiemagent.demo.cellar.synonyms import BODY_WORDS, TASTE_FAMILIES, countries_of, grape_names
from yiemagent.demo.cellar.wording import fold, stem, words

__all__ = [
    "Colour",
    "Filters",
    "Ranking",
    "Sort",
    "exclude_words",
    "fitting",
    "lead_with_grape",
    "rank",
    "sort_wines",
]

Colour: TypeAlias = Literal["red", "white", "rosé", "sparkling", "sweet", "fortified"]
Sort: TypeAlias = Literal["best match", "cheapest first", "dearest first", "oldest first", "youngest first"]

_FILLERS = frozenset(
    words(
        "a an and any bodied bottle bottles for from have hint hints in is nose note notes of on or some"
        " taste tasting that the this to touch which wine wines with"
    )
)
_ROSE = "rose"
"""A scent in the notes, but only a colour in a name."""
_IN_NOTES, _IN_NAME, _IN_GRAPES, _IN_PLACE, _IN_STYLE = 4, 5, 4, 4, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Exact limits on a search; None does not limit. Prices in euros, both ends included."""

    colour: str | None = None
    grape: str | None = None
    region: str | None = None
    country: str | None = None
    min_price: float | None = None
    max_price: float | None = None
    from_vintage: int | None = None
    to_vintage: int | None = None

    def __post_init__(self) -> None:
        _check_order("min_price", self.min_price, "max_price", self.max_price)
        _check_order("from_vintage", self.from_vintage, "to_vintage", self.to_vintage)


def _check_order(low_name: str, low: float | None, high_name: str, high: float | None) -> None:
    if low is not None and high is not None and low > high:
        raise ValueError(f"{low_name}={low:g} is above {high_name}={high:g}; swap them or leave one out")


def fitting(filters: Filters) -> list[Wine]:
    """The wines within *filters*, in the order of the cellar book."""
    conditions: list[str] = []
    parameters: list[Any] = []

    def need(condition: str, *values: Any) -> None:
        conditions.append(condition)
        parameters.extend(values)

    if filters.colour is not None:
        need("colour = ?", filters.colour)
    if filters.grape is not None:
        names = sorted(grape_names(fold(filters.grape)))
        need(f"id IN (SELECT wine_id FROM grape WHERE folded IN ({_marks(names)}))", *names)
    if filters.region is not None:
        need("instr(place, ?)", f" {fold(filters.region)} ")
    if filters.country is not None:
        countries = countries_of(fold(filters.country)) or (filters.country,)
        need(f"lower(country) IN ({_marks(countries)})", *(country.lower() for country in countries))
    for condition, value in (
        ("price >= ?", filters.min_price),
        ("price <= ?", filters.max_price),
        ("vintage >= ?", filters.from_vintage),
        ("vintage <= ?", filters.to_vintage),
    ):
        if value is not None:
            need(condition, value)
    return select(" AND ".join(conditions) or "1", parameters)


def _marks(values: Iterable[object]) -> str:
    return ", ".join("?" for _ in values)


@dataclass(frozen=True, slots=True)
class Ranking:
    """The wines that fit most words of a query, best first."""

    wines: list[Wine]
    words: int = 0
    """How many words the query has, without filler words."""
    fitted: int = 0
    """How many of them each of the wines fits."""
    not_found: tuple[str, ...] = ()
    """The words that none of the wines fits."""


def rank(wines: Iterable[Wine], query: str) -> Ranking:
    """Rank *wines* by the words of *query*; one of nothing but filler words lets every wine through."""
    wanted = [word for word in dict.fromkeys(words(query)) if word not in _FILLERS]
    pool = list(wines)
    if not wanted:
        return Ranking(pool)
    scored = []
    for wine in pool:
        scores = [score for word in wanted if (score := _score(wine, word))]
        if scores:
            scored.append((-len(scores), -sum(scores), wine.price, wine.id, wine))
    scored.sort(key=lambda entry: entry[:-1])
    most = -scored[0][0] if scored else 0
    best = [entry[-1] for entry in scored if -entry[0] == most]
    missed = tuple(word for word in wanted if not any(_score(wine, word) for wine in best))
    return Ranking(best, len(wanted), most, missed)


def lead_with_grape(wines: Iterable[Wine], grape: str) -> list[Wine]:
    """*wines* with those first that are made of *grape* alone or mostly."""
    names = grape_names(fold(grape))

    def place(wine: Wine) -> tuple[int, int]:
        at = next((at for at, name in enumerate(wine.grapes) if fold(name) in names), len(wine.grapes))
        return at, len(wine.grapes)

    return sorted(wines, key=place)


def exclude_words(wines: Iterable[Wine], unwanted: str) -> list[Wine]:
    """The wines that say nothing of any word in *unwanted*."""
    tokens = [word for word in words(unwanted) if word not in _FILLERS]
    return [wine for wine in wines if not any(_score(wine, token) for token in tokens)]


def sort_wines(wines: Iterable[Wine], order: Sort) -> list[Wine]:
    """*wines* in *order*; without a vintage they come last when sorted by age."""
    if order == "cheapest first":
        return sorted(wines, key=lambda wine: (wine.price, wine.id))
    if order == "dearest first":
        return sorted(wines, key=lambda wine: (-wine.price, wine.id))
    if order == "oldest first":
        return sorted(wines, key=lambda wine: (wine.vintage or 9999, wine.id))
    if order == "youngest first":
        return sorted(wines, key=lambda wine: (-(wine.vintage or 0), wine.id))
    return list(wines)


def _score(wine: Wine, word: str) -> int:
    index = _index(wine)
    direct = index.get(stem(BODY_WORDS.get(word, word)), 0)
    if direct:
        return 2 * direct
    family = TASTE_FAMILIES.get(word, ())
    return max((index.get(stem(member), 0) for member in family), default=0)


@functools.cache
def _index(wine: Wine) -> Mapping[str, int]:
    weights: dict[str, int] = {}
    colour = "" if wine.colour == "rosé" else wine.colour
    style = f"{wine.body} {wine.sweetness} {colour}"
    grapes = " ".join(" ".join(grape_names(fold(grape))) for grape in wine.grapes)
    for text, weight in (
        (style, _IN_STYLE),
        (f"{wine.origin}", _IN_PLACE),
        (grapes, _IN_GRAPES),
        (wine.notes, _IN_NOTES),
        (f"{wine.producer} {wine.name}", _IN_NAME),
    ):
        for word in words(text):
            if weight == _IN_NAME and word == _ROSE:
                continue
            weights[stem(word)] = max(weight, weights.get(stem(word), 0))
    return weights
