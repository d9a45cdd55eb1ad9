"""Sentences about wines: how the stand-in says what it found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from yiemagent.demo.offline.intent import Wish
from yiemagent.demo.offline.phrasing import ADJECTIVES, is_adjective, is_taste

__all__ = ["describe", "entry", "joined", "listing", "money", "number", "of_kind", "plural", "sentence_case"]

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def joined(parts: Iterable[str], last: str = "and") -> str:
    """``a, b and c``."""
    words = list(parts)
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def number(count: int) -> str:
    """Small numbers as words."""
    return _NUMBERS[count] if count < len(_NUMBERS) else f"{count:,}"


def sentence_case(text: str) -> str:
    """*text* with its first letter large and the others as they are."""
    return text[:1].upper() + text[1:]


def plural(count: int, noun: str) -> str:
    """``one wine``, ``12 wines``."""
    return f"{number(count)} {noun if count == 1 else noun + 's'}"


def of_kind(wish: Wish, count: int) -> str:
    """``12 red wines from Italy``."""
    return f"{number(count)} {describe(wish, count)}"


def money(amount: float) -> str:
    """``30 euros``; cents only when there are some."""
    if amount == 1:
        return "1 euro"
    return f"{amount:,.0f} euros" if amount == int(amount) else f"{amount:,.2f} euros"


def describe(wish: Wish, count: int = 2) -> str:
    """What was asked for as a noun phrase: ``dry red wines from Italy up to 30 euros``."""
    adjectives = dict.fromkeys(ADJECTIVES.get(term, term) for term in wish.terms if is_adjective(term))
    notes = [term for term in wish.terms if is_taste(term) and not is_adjective(term)]
    others = [f'"{term}"' for term in wish.terms if not is_taste(term)]
    parts = [*adjectives, *wish.colours[:1], *(grape.title() for grape in wish.grapes[:1])]
    parts.append("wine" if count == 1 else "wines")
    places = [*wish.regions[:1], *wish.countries[:1]]
    if places:
        parts.append(f"from {joined(places)}")
    parts.extend(filter(None, (_prices(wish), _vintages(wish))))
    if notes:
        parts.append(f"with notes of {joined(notes)}")
    if others:
        parts.append(f"that {'mentions' if count == 1 else 'mention'} {joined(others)}")
    return " ".join([*parts, *_without(wish)])


def _without(wish: Wish) -> list[str]:
    adjectives = [ADJECTIVES.get(word, word) for word in wish.exclude if is_adjective(word)]
    tastes = [word for word in wish.exclude if is_taste(word) and not is_adjective(word)]
    others = [word.title() for word in wish.exclude if not is_taste(word)]
    texts = (("that are not", adjectives), ("without", tastes), ("but not", others))
    return [f"{opening} {joined(words, 'or')}" for opening, words in texts if words]


def _prices(wish: Wish) -> str:
    if wish.min_price is not None and wish.max_price is not None:
        return f"between {wish.min_price:g} and {money(wish.max_price)}"
    if wish.max_price is not None:
        return f"up to {money(wish.max_price)}"
    return f"from {money(wish.min_price)} upwards" if wish.min_price is not None else ""


def _vintages(wish: Wish) -> str:
    if wish.from_vintage is not None and wish.to_vintage is not None:
        same = wish.from_vintage == wish.to_vintage
        return f"of {wish.from_vintage}" if same else f"of {wish.from_vintage} to {wish.to_vintage}"
    if wish.to_vintage is not None:
        return f"of {wish.to_vintage} or older"
    return f"of {wish.from_vintage} or younger" if wish.from_vintage is not None else ""


def entry(wine: Mapping[str, Any]) -> str:
    """One wine in one line."""
    return f"{wine['wine']} ({wine['colour']}, {wine['origin']}), {money(wine['price_eur'])}. {wine['notes']}"


def listing(wines: Sequence[Mapping[str, Any]]) -> str:
    """The wines as a numbered list, so that a later question can say ``the second``."""
    return "\n".join(f"{place}. {entry(wine)}" for place, wine in enumerate(wines, start=1))
