"""Answers about one wine, what is like it, and what goes with what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from yiemagent.demo.cellar.pairing import DISHES
from yiemagent.demo.offline.conversation import Scene
from yiemagent.demo.offline.desk import CannotLookUp, Desk
from yiemagent.demo.offline.prose import describe, entry, joined, listing, money, plural
from yiemagent.demo.offline.search_answer import limits_of

__all__ = ["answer_details", "answer_food_for", "answer_pair", "answer_similar", "answer_suits", "shown_wine"]

_PAIR_LIMITS = ("colour", "country", "min_price", "max_price")
_MOST_COURSES = 4


def answer_details(scene: Scene, desk: Desk) -> str:
    """Everything about the wine that is named or pointed at."""
    wish = scene.wish
    if not wish.wines:
        wine = shown_wine(scene, (wish.picks or (0,))[0])
        return _portrait(desk.ask("wine_details", wine=str(wine["id"])))
    name = wish.wines[0]
    if len(name.ids) == 1:
        return _portrait(desk.ask("wine_details", wine=name.phrase))
    found = desk.ask("search_wines", query=name.phrase, **limits_of(replace(wish, terms=())))
    if found["count"] == 1:
        return _portrait(desk.ask("wine_details", wine=str(found["wines"][0]["id"])))
    if not found["wines"]:
        return f"Of {name.phrase.title()} there are no {describe(wish)} in the cellar."
    return f"The cellar has {plural(found['count'], 'wine')} of that name:\n{listing(found['wines'])}"


def _portrait(wine: Mapping[str, Any]) -> str:
    return (
        f"{wine['wine']} is a {wine['body']}-bodied, {wine['sweetness']} {wine['colour']} wine from "
        f"{wine['origin']}, made of {joined(wine['grapes'])}. {wine['notes']} "
        f"It goes with {joined(wine['pairs_with'])}. A bottle costs {money(wine['price_eur'])}; "
        f"{plural(wine['stock'], 'bottle')} {'is' if wine['stock'] == 1 else 'are'} left."
    )


def answer_similar(scene: Scene, desk: Desk) -> str:
    """Wines of the same grape and colour as the one that is named or pointed at."""
    wish = scene.wish
    name = wish.wines[0].phrase if wish.wines else str(shown_wine(scene, (wish.picks or (0,))[0])["id"])
    model = desk.ask("wine_details", wine=name)
    found = desk.ask(
        "search_wines",
        query=model["body"],
        colour=model["colour"],
        grape=model["grapes"][0],
        max_price=wish.max_price,
        max_results=6,
    )
    others = [wine for wine in found["wines"] if wine["id"] != model["id"]][:5]
    if not others:
        return f"Nothing else in the cellar is made like {model['wine']}."
    return f"In the manner of {model['wine']} ({money(model['price_eur'])}):\n{listing(others)}"


def answer_pair(scene: Scene, desk: Desk) -> str:
    """Wines for a dish, or one for each of several, and why."""
    wish = scene.wish
    limits = limits_of(wish)
    asked = {name: limits[name] for name in _PAIR_LIMITS if name in limits}
    dishes = _dishes(wish.dish or "dinner")
    if len(dishes) > 1:
        return _menu(dishes, asked, desk)
    (dish,) = dishes
    found = desk.ask("pair_with_food", dish=dish, **asked, max_results=wish.limit)
    if not found["wines"]:
        anyway = desk.ask("pair_with_food", dish=dish)
        wanted = describe(replace(wish, terms=(), sort=None))
        return f"No {wanted} go with {dish}. Others do:\n{listing(anyway['wines'])}"
    why = _reasons(dish, found)
    return f"With {dish} ({why}) I would open one of these:\n{listing(found['wines'])}"


def _dishes(dish: str) -> list[str]:
    """The courses of a meal; an occasion is none when there is something to eat."""
    parts = dish.split(" and ")
    courses = [part for part in parts if DISHES.get(part) != "aperitif"]
    return (courses or parts)[:_MOST_COURSES]


def _menu(dishes: list[str], asked: dict[str, Any], desk: Desk) -> str:
    results = desk.ask_all(("pair_with_food", {"dish": dish, **asked, "max_results": 1}) for dish in dishes)
    lines: list[str] = []
    for dish, found in zip(dishes, results, strict=True):
        wine = entry(found["wines"][0]) if found["wines"] else "nothing within these limits."
        lines.append(f"{len(lines) + 1}. With {dish}: {wine}")
    return "\n".join(["One wine for each:", *lines])


def _reasons(dish: str, found: Mapping[str, Any]) -> str:
    """Why, each reason once, with the kinds of food it holds for unless that is the dish itself."""
    kinds: dict[str, list[str]] = {}
    for kind, why in zip(found["food"], found["why"], strict=True):
        kinds.setdefault(why, []).append(kind)
    return "; ".join(why if names == [dish] else f"{joined(names)}: {why}" for why, names in kinds.items())


def answer_suits(scene: Scene, desk: Desk) -> str:
    """Whether a wine that was shown goes with a dish."""
    wish = scene.wish
    wine = desk.ask("wine_details", wine=str(shown_wine(scene, (wish.picks or (0,))[0])["id"]))
    found = desk.ask("pair_with_food", dish=wish.dish or "dinner", max_results=3)
    if set(found["food"]) & set(wine["pairs_with"]):
        return f"Yes, {wine['wine']} goes with {wish.dish}: {found['why'][0]}."
    return (
        f"{wine['wine']} is better with {joined(wine['pairs_with'], 'or')}. "
        f"For {wish.dish} I would open one of these:\n{listing(found['wines'])}"
    )


def answer_food_for(scene: Scene, desk: Desk) -> str:
    """Dishes for a wine, a grape or a place."""
    wish = scene.wish
    if wish.has_limits:
        wines = desk.ask("search_wines", **limits_of(wish), max_results=10)["wines"]
    else:
        wines = [shown_wine(scene, (wish.picks or (0,))[0])]
    if not wines:
        return f"There are no {describe(wish)} in the cellar."
    dishes: dict[str, int] = {}
    for wine in wines:
        for place, dish in enumerate(wine["pairs_with"]):
            dishes[dish] = dishes.get(dish, 0) + 3 - place
    best = sorted(dishes, key=lambda dish: -dishes[dish])[:4]
    subject = wines[0]["wine"] if len(wines) == 1 else f"the {describe(wish)} here"
    return f"With {subject} I would serve {joined(best, 'or')}."


def shown_wine(scene: Scene, place: int) -> dict[str, Any]:
    """The wine at *place* of the list that was shown last.

    Raises:
        CannotLookUp: So many were not shown.
    """
    try:
        return scene.shown[place]
    except IndexError:
        raise CannotLookUp("I have not shown you that many wines yet; ask me for some first.") from None
