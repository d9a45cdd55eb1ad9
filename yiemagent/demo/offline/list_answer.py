"""Answers that count and list: wines, bottles, countries, regions, grapes, the whole cellar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from yiemagent.demo.offline.compare_answer import group_limits
from yiemagent.demo.offline.conversation import Scene
from yiemagent.demo.offline.desk import Desk
from yiemagent.demo.offline.intent import Wish
from yiemagent.demo.offline.prose import describe, joined, money, number, of_kind, plural, sentence_case
from yiemagent.demo.offline.search_answer import limits_of

__all__ = [
    "answer_count",
    "answer_countries",
    "answer_grapes",
    "answer_overview",
    "answer_regions",
    "answer_stock",
    "group_limits",
]

_FIRST_REGIONS = 12
_FIRST_GRAPES = 20


def answer_count(scene: Scene, desk: Desk) -> str:
    """How many wines fit, with examples."""
    wish = scene.wish
    found = desk.ask("search_wines", **limits_of(wish), max_results=3)
    count = found["count"]
    if not found["wines"]:
        return f"There are no {describe(wish)} in the cellar."
    verb = "is" if count == 1 else "are"
    examples = joined(wine["wine"] for wine in found["wines"])
    return f"There {verb} {of_kind(wish, count)} in the cellar, for example {examples}."


def answer_stock(scene: Scene, desk: Desk) -> str:
    """Bottles and their worth."""
    wish = scene.wish
    wanted = {key: value for key, value in group_limits(wish).items() if key != "grape"}
    found = desk.ask("stock_value", **wanted)
    if not found["wines"]:
        return f"There are no {describe(wish)} in the cellar."
    shares = joined(f"{count:,} {colour}" for colour, count in found["bottles_by_colour"].items())
    split = f" ({shares})" if len(found["bottles_by_colour"]) > 1 else ""
    return (
        f"The cellar holds {found['bottles']:,} bottles{split} of {of_kind(wish, found['wines'])}; "
        f"together they are worth {money(found['value_eur'])}."
    )


def answer_countries(scene: Scene, desk: Desk) -> str:
    """The countries and their number of wines."""
    found = desk.ask("list_regions", **_only(scene.wish, "colour", "country"))
    countries = joined(f"{country} ({count})" for country, count in found["countries"].items())
    how_many = len(found["countries"])
    where = "one country" if how_many == 1 else f"{number(how_many)} countries"
    return f"The wines come from {where}, with so many of each: {countries}."


def answer_regions(scene: Scene, desk: Desk) -> str:
    """The regions with their number of wines and prices."""
    found = desk.ask("list_regions", **_only(scene.wish, "colour", "country"))
    if not found["regions"]:
        return f"There are no {describe(scene.wish)} in the cellar."
    one_country = len(found["countries"]) == 1
    lines = [
        f"- {region['region']}{'' if one_country else ', ' + region['country']}: "
        f"{plural(region['wines'], 'wine')}, {_from_to(region)}"
        for region in found["regions"][:_FIRST_REGIONS]
    ]
    rest = len(found["regions"]) - len(lines)
    more = f"\nand {rest} more." if rest > 0 else ""
    regions = plural(len(found["regions"]), "region")
    return "\n".join([f"{sentence_case(describe(scene.wish))} come from {regions}:", *lines]) + more


def _from_to(region: Mapping[str, Any]) -> str:
    low, high = region["from_eur"], region["to_eur"]
    return money(low) if low == high else f"{low} to {money(high)}"


def answer_grapes(scene: Scene, desk: Desk) -> str:
    """The grapes and their number of wines."""
    found = desk.ask("list_grapes", **_only(scene.wish, "colour", "region", "country"))
    if not found["grapes"]:
        return f"There are no {describe(scene.wish)} in the cellar."
    grapes = list(found["grapes"].items())
    names = joined(f"{grape} ({count})" for grape, count in grapes[:_FIRST_GRAPES])
    rest = len(grapes) - _FIRST_GRAPES
    more = f"; {rest} more grow in only one or two of them" if rest > 0 else ""
    wines = sentence_case(of_kind(scene.wish, found["wines"]))
    verb = "is" if found["wines"] == 1 else "are"
    return f"{wines} {verb} made of {plural(len(grapes), 'grape')}: {names}{more}."


def _only(wish: Wish, *names: str) -> dict[str, Any]:
    wanted = limits_of(wish)
    return {name: wanted[name] for name in names if name in wanted}


def answer_overview(scene: Scene, desk: Desk) -> str:
    """The whole cellar in a few sentences."""
    stock, places, grapes = desk.ask_all([("stock_value", {}), ("list_regions", {}), ("list_grapes", {})])
    colours = joined(f"{count:,} {colour}" for colour, count in stock["bottles_by_colour"].items())
    countries = joined(list(places["countries"])[:5])
    favourites = joined(list(grapes["grapes"])[:5])
    return (
        f"{stock['wines']} wines, {stock['bottles']:,} bottles ({colours}), worth "
        f"{money(stock['value_eur'])}. They come from {len(places['countries'])} countries, most from "
        f"{countries}; of {len(grapes['grapes'])} grapes, {favourites} are the most frequent. "
        "Ask me for a taste, a place or a price."
    )
