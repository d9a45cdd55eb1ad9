"""Token counts as OpenAI-compatible servers report them, and what they cost."""

from __future__ import annotations

import functools
import json
import math
import os.path
from collections.abc import Mapping
from typing import Any

from yiemagent.data_class import replace
from yiemagent.messages import Usage
from yiemagent.model import ModelInfo

__all__ = ["known_model", "openai_usage", "with_cost"]

_NOTHING: Mapping[str, Any] = {}
_NUMBERS = (int, float)  # By their very type: True is none.


def openai_usage(raw: Any) -> Usage | None:
    """Usage from a Chat Completions ``usage`` object; None when it says nothing (A-56, B-22).

    Cached tokens are taken out of the prompt's, reasoning tokens are part of the completion's
    (PI-90 and PI-2.2).
    """
    if not isinstance(raw, Mapping):
        return None
    prompt = _count(raw.get("prompt_tokens"), raw.get("input_tokens"))
    output = _count(raw.get("completion_tokens"), raw.get("output_tokens"))
    if prompt is None and output is None:
        return None
    in_details = _mapping(raw.get("prompt_tokens_details") or raw.get("input_tokens_details"))
    out_details = _mapping(raw.get("completion_tokens_details") or raw.get("output_tokens_details"))
    cached = _count(
        in_details.get("cached_tokens"), raw.get("prompt_cache_hit_tokens"), raw.get("cached_tokens")
    )
    written = _count(in_details.get("cache_write_tokens"), in_details.get("cache_creation_tokens"))
    if prompt is not None:
        prompt = max(0, prompt - (cached or 0) - (written or 0))
    return Usage(
        input_tokens=prompt,
        output_tokens=output,
        cache_read_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=_count(out_details.get("reasoning_tokens"), raw.get("reasoning_tokens")),
    )


def with_cost(usage: Usage | None, info: ModelInfo) -> Usage | None:
    """*usage* with its cost by the prices of *info*; unchanged when a needed price is unknown."""
    if usage is None or usage.cost is not None:
        return usage
    cost = 0.0
    for tokens, price in (
        (usage.input_tokens, info.input_price),
        (usage.output_tokens, info.output_price),
        (usage.cache_read_tokens, info.cache_read_price or info.input_price),
        (usage.cache_write_tokens, info.cache_write_price or info.input_price),
    ):
        if tokens:
            if price is None:
                return usage
            cost += tokens * price / 1_000_000
    return replace(usage, cost=cost)


@functools.lru_cache(maxsize=1)
def _prices() -> Mapping[str, Mapping[str, Any]]:
    # Not through importlib.resources, whose loading costs more than half a run.
    with open(os.path.join(os.path.dirname(__file__), "prices.json"), "rb") as file:
        models: Mapping[str, Mapping[str, Any]] = json.load(file)["models"]
    return models


def known_model(model: str) -> Mapping[str, Any]:
    """What the price table says of *model*: fields of ``ModelInfo``; empty when nothing.

    The longest entry that the name begins with counts, so that dated names are found; what
    stands before a ``/`` is left out.
    """
    name = model.rpartition("/")[2].lower()
    table = _prices()
    if name in table:
        return table[name]
    fitting = [known for known in table if name.startswith(f"{known}-20") or name == f"{known}-latest"]
    return table[max(fitting, key=len)] if fitting else {}


def _count(*values: Any) -> int | None:
    for value in values:
        if value is not None and type(value) in _NUMBERS and 0 <= value < math.inf:
            return int(value)
    return None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if value and isinstance(value, Mapping) else _NOTHING
