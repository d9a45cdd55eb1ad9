"""Comparisons: wines side by side, and grapes, places or colours by their prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from yiemagent.demo.offline.conversation import Scene
from yiemagent.demo.offline.desk import Desk
from yiemagent.demo.offline.intent import Wish
from yiemagent.demo.offline.prose import describe, entry, joined, money, of_kind, sentence_case
from yiemagent.demo.offline.search_answer import limits_of
from yiemagent.demo.offline.wine_answer import shown_wine

__all__ = ["_price_span", "answer_compare", "answer_prices", "group_limits", "shown_wine"]


def answer_compare(scene: Scene, desk: Desk) -> str:
    """Two to four wines side by side, or the price spans of grapes, places or colours."""
    wish = scene.wish
    groups = _groups(wish)
    if not wish.wines and len(groups) > 1:
        return _compare_groups(groups, desk)
    names = [name.phrase for name in wish.wines]
    if names and groups:
        found = desk.ask("search_wines", **limits_of(groups[0]), max_results=1)
        names.extend(str(wine["id"]) for wine in found["wines"])
    if len(names) < 2 and scene.shown:
        places = wish.picks or tuple(range(wish.limit or 2))
        known = [str(shown_wine(scene, place)["id"]) for place in places]
        names = list(dict.fromkeys([*names, *known]))
    if len(names) < 2:
        wanted = min(max(wish.limit or 2, 2), 4)
        found = desk.ask(
            "search_wines", **limits_of(wish), sort=wish.sort or "dearest first", max_results=wanted
        )
        names = [str(wine["id"]) for wine in found["wines"]]
    if len(names) < 2:
        return "I need two wines for a comparison; name them, or ask me for some first."
    return _comparison(desk.ask("compare_wines", wines=names[:4]))


def _comparison(found: Mapping[str, Any]) -> str:
    lines = [
        f"{place}. {entry(wine)} {wine['body'].capitalize()}-bodied, {joined(wine['grapes'])}."
        for place, wine in enumerate(found["wines"], start=1)
    ]
    gap = found["price_difference_eur"]
    price = f"{found['cheapest']} is the cheaper one, by {money(gap)}." if gap else "They cost the same."
    if len(lines) > 2:
        price = f"{found['cheapest']} is the cheapest; the dearest costs {money(gap)} more."
    shared = found["shared_food"]
    food = f" Both go with {joined(shared)}." if shared and len(lines) == 2 else ""
    oldest = min(found["wines"], key=lambda wine: wine["vintage"] or 9999)
    years = {wine["vintage"] for wine in found["wines"]}
    age = f" The oldest is {oldest['wine']}." if oldest["vintage"] and len(years) > 1 else ""
    return "\n".join([*lines, f"{price}{age}{food}"])


def _groups(wish: Wish) -> list[Wish]:
    """One wish for each colour, grape or place that is to be compared."""
    plain = replace(wish, wines=(), sort=None, limit=None)
    if len(wish.grapes) > 1:
        return [replace(plain, grapes=(grape,)) for grape in wish.grapes]
    if len(wish.regions) + len(wish.countries) > 1:
        regions = [replace(plain, regions=(region,), countries=()) for region in wish.regions]
        return regions + [replace(plain, regions=(), countries=(country,)) for country in wish.countries]
    if len(wish.colours) > 1:
        return [replace(plain, colours=(colour,)) for colour in wish.colours]
    return [plain] if wish.has_subject else []


def _compare_groups(groups: list[Wish], desk: Desk) -> str:
    spans = [("price_range", group_limits(group)) for group in groups]
    searches = [("search_wines", {**limits_of(group), "max_results": 2}) for group in groups]
    answers = desk.ask_all([*spans, *searches])
    lines = []
    for group, span, found in zip(groups, answers, answers[len(groups) :], strict=False):
        if not span["count"]:
            lines.append(f"- There are no {describe(group)} in the cellar.")
            continue
        examples = " ".join(entry(wine) for wine in found["wines"])
        lines.append(f"- {_price_span(group, span)} For example: {examples}")
    return "\n".join(["Side by side:", *lines])


def answer_prices(scene: Scene, desk: Desk) -> str:
    """Cheapest, dearest and average of a kind of wine."""
    found = desk.ask("price_range", **group_limits(scene.wish))
    if not found["count"]:
        return f"There are no {describe(scene.wish)} in the cellar."
    if found["count"] == 1:
        return f"{_price_span(scene.wish, found)} It is {entry(found['cheapest'])}"
    return (
        f"{_price_span(scene.wish, found)}\n1. The cheapest: {entry(found['cheapest'])}\n"
        f"2. The dearest: {entry(found['dearest'])}"
    )


def _price_span(wish: Wish, found: Mapping[str, Any]) -> str:
    text = sentence_case(of_kind(wish, found["count"]))
    low, high = found["cheapest"]["price_eur"], found["dearest"]["price_eur"]
    if found["count"] == 1:
        return f"{text} at {money(low)}."
    return f"{text}, from {low:,} to {money(high)}, {money(round(found['average_eur']))} on average."


def group_limits(wish: Wish) -> dict[str, Any]:
    """The part of *wish* that ``price_range`` understands."""
    wanted = limits_of(wish)
    return {key: wanted[key] for key in ("colour", "grape", "region", "country") if key in wanted}
