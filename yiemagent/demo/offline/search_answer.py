"""The commonest answer: wines that fit, with a second look where the first finds too little."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from yiemagent.demo.offline.conversation import Scene
from yiemagent.demo.offline.desk import Desk
from yiemagent.demo.offline.intent import Wish
from yiemagent.demo.offline.prose import describe, entry, joined, listing, number, of_kind, sentence_case

__all__ = ["answer_search", "limits_of"]

_SHOWN = 5
_MOST_SHOWN = 20
_MOST_BRANCHES = 4
_ORDERS = {
    "cheapest first": ("cheapest", "from the cheapest up"),
    "dearest first": ("dearest", "from the dearest down"),
    "oldest first": ("oldest", "from the oldest"),
    "youngest first": ("youngest", "from the youngest"),
}
_RELAXATIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("at any price", {"min_price": None, "max_price": None}),
    ("of any vintage", {"from_vintage": None, "to_vintage": None}),
    ("without those words", {"terms": (), "exclude": ()}),
    ("of any colour", {"colours": ()}),
    ("from anywhere", {"regions": (), "countries": ()}),
)
"""What is let go, one at a time and in this order, when nothing fits everything."""


def limits_of(wish: Wish) -> dict[str, Any]:
    """The arguments of ``search_wines`` that say what *wish* says (the first of each kind)."""
    wanted = {
        "query": " ".join(wish.terms),
        "colour": _first(wish.colours),
        "grape": _first(wish.grapes),
        "region": _first(wish.regions),
        "country": _first(wish.countries) if not wish.regions else None,
        "min_price": wish.min_price,
        "max_price": wish.max_price,
        "from_vintage": wish.from_vintage,
        "to_vintage": wish.to_vintage,
        "exclude": " ".join(wish.exclude),
    }
    return {key: value for key, value in wanted.items() if value not in (None, "")}


def answer_search(scene: Scene, desk: Desk) -> str:
    """List the wines that fit; see ``answer`` for what it may raise."""
    wish = scene.wish
    branches = _branches(wish)
    if len(branches) > 1:
        return _several(branches, desk)
    seen = len(scene.shown) if wish.kind == "more" or scene.own.kind == "more" else 0
    limit = _limit(wish, seen)
    found = desk.ask("search_wines", **limits_of(wish), sort=wish.sort, max_results=limit)
    if not found["wines"]:
        return _relax(scene, desk)
    shown_ids = {wine["id"] for wine in scene.shown} if seen else set()
    wines = [wine for wine in found["wines"] if wine["id"] not in shown_ids]
    if not wines:
        return f"That was all: there are no more {describe(wish)}."
    if wish.sort and limit == 1:
        return _superlative(wish, found, desk)
    return "\n".join(filter(None, (_headline(wish, found, len(wines)), listing(wines), _missed(found))))


def _limit(wish: Wish, seen: int) -> int:
    if wish.limit is not None:
        return min(wish.limit + seen, _MOST_SHOWN)
    if seen:
        return min(seen + _SHOWN, _MOST_SHOWN)
    return 1 if wish.sort and wish.points != "several" else _SHOWN


def _superlative(wish: Wish, found: dict[str, Any], desk: Desk) -> str:
    wine = desk.ask("wine_details", wine=str(found["wines"][0]["id"]))
    word = _ORDERS[wish.sort or ""][0]
    others = found["count"] - 1
    among = (
        f", the {word} of {found['count']} {describe(wish)}"
        if others
        else f", the only one of the {describe(wish)}"
    )
    left = f"{number(wine['stock'])} left" if wine["stock"] else "sold out"
    return f"{entry(wine)}\nThat is {wine['wine']}{among}: {joined(wine['grapes'])}; {left}."


def _headline(wish: Wish, found: dict[str, Any], shown: int) -> str:
    count = found["count"]
    if "words_fitted" in found:
        verb = "has" if count == 1 else "have"
        part = f"{number(found['words_fitted'])} of the {number(found['words_asked'])}"
        return f"No wine has all of that; {number(count)} {verb} {part}. Here {_are(shown)}:"
    what = sentence_case(of_kind(wish, count))
    fits = "is in the cellar" if count == 1 else "are in the cellar"
    order = _ORDERS[wish.sort][1] if wish.sort else "the best matches" if wish.terms else ""
    if shown < count:
        some = f"Here {_are(shown)}"
        return f"{what} {fits}. {some}{', ' + order if order else ''}:"
    return f"{what} {fits}:"


def _are(count: int) -> str:
    return f"{'are' if count > 1 else 'is'} {number(count)}"


def _missed(found: dict[str, Any]) -> str:
    missed = found.get("words_not_found")
    return f"(None of them speaks of {joined(missed, 'or')}.)" if missed else ""


def _relax(scene: Scene, desk: Desk) -> str:
    """Say that nothing fits, and look again with one limit less until something does.

    What was carried over from earlier questions goes first.
    """
    wish, own = scene.wish, scene.own
    if own.has_subject and limits_of(own) != limits_of(wish):
        found = desk.ask("search_wines", **limits_of(own), max_results=_SHOWN)
        if found["wines"]:
            headline = _headline(own, found, len(found["wines"]))
            return f"There are no {describe(wish)}. But by itself: {headline}\n{listing(found['wines'])}"
    relaxed = wish
    let_go: list[str] = []
    for words, without in _RELAXATIONS:
        looser = replace(relaxed, **without)
        if looser == relaxed or not looser.has_limits:
            continue
        relaxed, let_go = looser, [*let_go, words]
        sort = "cheapest first" if wish.max_price is not None else wish.sort
        found = desk.ask("search_wines", **limits_of(relaxed), sort=sort, max_results=3)
        if found["wines"]:
            near = f"The nearest, {joined(let_go)}"
            return f"There are no {describe(wish)} in the cellar. {near}:\n{listing(found['wines'])}"
    return f"There are no {describe(wish)} in the cellar."


def _branches(wish: Wish) -> list[Wish]:
    """One wish for each combination of the colours, grapes and places that are named."""
    choices = [
        wish.colours or (None,),
        wish.grapes or (None,),
        wish.regions or (None,),
        wish.countries or (None,),
    ]
    wishes = []
    for combination in itertools.islice(itertools.product(*choices), _MOST_BRANCHES):
        colour, grape, region, country = ((value,) if value else () for value in combination)
        wishes.append(replace(wish, colours=colour, grapes=grape, regions=region, countries=country))
    return wishes


def _several(branches: list[Wish], desk: Desk) -> str:
    limit = branches[0].limit or 3
    results = desk.ask_all(
        ("search_wines", {**limits_of(branch), "sort": branch.sort, "max_results": limit})
        for branch in branches
    )
    parts = []
    place = 1
    for branch, found in zip(branches, results, strict=True):
        if not found["wines"]:
            parts.append(f"There are no {describe(branch)} in the cellar.")
            continue
        lines = [f"{at}. {entry(wine)}" for at, wine in enumerate(found["wines"], start=place)]
        place += len(lines)
        parts.append("\n".join([_headline(branch, found, len(lines)), *lines]))
    return "\n".join(parts)


def _first(values: tuple[str, ...]) -> str | None:
    return values[0] if values else None
