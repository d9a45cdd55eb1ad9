"""A conversation as the stand-in sees it: the last wish, what was shown, what was looked up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from yiemagent.demo.offline.intent import Wish, read_wish

__all__ = ["Scene", "call_key", "json_in", "read_scene", "text_of"]

_POINTING = frozenset({"details", "suits", "food_for", "similar"})
_TAKES_LIMITS = frozenset({"search", "pair", "count", "prices", "more", "surprise", "stock"})
_KEPT_KINDS = frozenset({"pair", "count", "prices", "stock"})


@dataclass(slots=True)
class Scene:
    """Where the conversation stands. Read anew from the messages of every request: it has no memory."""

    wish: Wish = field(default_factory=Wish)
    own: Wish = field(default_factory=Wish)
    """The last question by itself, without what it inherits."""
    question: str = ""
    thread: Wish | None = None
    """The last wish that later ones may build on."""
    shown: list[dict[str, Any]] = field(default_factory=list)
    """The wines shown before the last question, in the order of the answer."""
    fresh: list[dict[str, Any]] = field(default_factory=list)
    """The wines looked up since the last question."""
    results: dict[str, str] = field(default_factory=dict)
    """What was looked up since the last question: ``name(arguments)`` to the result's text."""
    calls: dict[str, str] = field(default_factory=dict)
    """Tool call ids and the calls they stand for."""

    def hear(self, question: str) -> None:
        """Take in what the user says next."""
        if self.fresh:
            self.shown = self.fresh
        self.fresh = []
        self.results = {}
        self.question = question
        self.own = read_wish(question)
        self.wish = self.own if self.thread is None else _build_on(self.thread, self.own)
        if self.wish.kind in _TAKES_LIMITS:
            self.thread = replace(self.wish, picks=(), points=None, step=None, wines=())
        self.wish = self._stepped(self.wish)

    def _stepped(self, wish: Wish) -> Wish:
        """Turn ``cheaper`` and the like into limits, and pointing at nothing into not knowing."""
        if wish.kind in _POINTING and not self.shown and not (wish.wines or wish.has_limits):
            return replace(wish, kind="pair" if wish.dish else "unknown")
        if wish.step is None or not self.shown or wish.kind in ("compare", "details"):
            return wish
        prices = [wine["price_eur"] for wine in self.shown]
        vintages = [wine["vintage"] for wine in self.shown if wine.get("vintage")]
        if wish.step == "cheaper":
            return replace(
                wish, kind="search", max_price=min(prices) - 1, min_price=None, sort="dearest first"
            )
        if wish.step == "dearer":
            return replace(
                wish, kind="search", min_price=max(prices) + 1, max_price=None, sort="cheapest first"
            )
        if wish.step == "older" and vintages:
            return replace(wish, kind="search", to_vintage=min(vintages) - 1, from_vintage=None)
        if wish.step == "younger" and vintages:
            return replace(wish, kind="search", from_vintage=max(vintages) + 1, to_vintage=None)
        return wish

    def look(self, call_id: str, text: str) -> None:
        """Take in the result of a tool call."""
        self.results[self.calls.get(call_id, call_id)] = text
        found = json_in(text)
        if isinstance(found, dict):
            known = {wine["id"] for wine in self.fresh}
            self.fresh.extend(wine for wine in _wines_in(found) if wine["id"] not in known)


def read_scene(messages: Sequence[Mapping[str, Any]]) -> Scene:
    """Read a conversation from the messages of a request."""
    scene = Scene()
    for message in messages:
        role = message.get("role")
        if role == "user":
            scene.hear(text_of(message))
        elif role == "assistant":
            for call in message.get("tool_calls") or ():
                function = call["function"]
                scene.calls[call["id"]] = call_key(function["name"], _arguments(function))
        elif role == "tool":
            scene.look(str(message.get("tool_call_id")), text_of(message))
    return scene


def call_key(name: str, arguments: Mapping[str, Any]) -> str:
    """One text for a call, whatever the order of its arguments."""
    return f"{name}({json.dumps(arguments, sort_keys=True)})"


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, be its content a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return " ".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)


def json_in(text: str) -> Any:
    """The first JSON object in *text*, which may stand between other words (a fence); or None."""
    start = text.find("{")
    while start >= 0:
        try:
            return json.JSONDecoder().raw_decode(text, start)[0]
        except ValueError:
            start = text.find("{", start + 1)
    return None


def _arguments(function: Mapping[str, Any]) -> dict[str, Any]:
    found = json_in(str(function.get("arguments") or ""))
    return found if isinstance(found, dict) else {}


def _wines_in(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    candidates = [*result.get("wines", ())] if isinstance(result.get("wines"), list) else [result]
    return [wine for wine in candidates if isinstance(wine, dict) and "id" in wine and "price_eur" in wine]


def _build_on(before: Wish, own: Wish) -> Wish:
    """*own* with what it leaves unsaid taken from the wish *before*."""
    builds = own.follows or own.points or own.step or own.kind == "more"
    if not builds or own.kind not in _TAKES_LIMITS:
        return own
    keeps_kind = own.kind in ("search", "more", "surprise") and before.kind in _KEPT_KINDS
    kind = before.kind if keeps_kind else "search" if own.kind == "surprise" else own.kind
    new_place = bool(own.regions or own.countries)
    new_price = own.min_price is not None or own.max_price is not None
    new_vintage = own.from_vintage is not None or own.to_vintage is not None
    terms = own.terms if own.replaces and own.terms else tuple(dict.fromkeys((*before.terms, *own.terms)))
    return replace(
        own,
        kind=kind,
        colours=own.colours or before.colours,
        grapes=own.grapes or before.grapes,
        regions=own.regions if new_place else before.regions,
        countries=own.countries if new_place else before.countries,
        dish=own.dish or before.dish,
        terms=terms,
        exclude=tuple(dict.fromkeys((*before.exclude, *own.exclude))),
        min_price=own.min_price if new_price else before.min_price,
        max_price=own.max_price if new_price else before.max_price,
        from_vintage=own.from_vintage if new_vintage else before.from_vintage,
        to_vintage=own.to_vintage if new_vintage else before.to_vintage,
        sort=own.sort or before.sort,
        limit=own.limit or before.limit,
    )
