"""JSON for the wires is what the standard library makes, made faster."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yiemagent.compact_json import compact_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text() | st.integers(), inner),
)


@given(VALUES)
def test_the_text_is_that_of_the_standard_library(value: Any) -> None:
    """Compact, and text as it is (C-27)."""
    assert compact_json(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("value", [math.nan, math.inf, {1, 2}, object(), b"x", {(1,): 2}])
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    """C-34: also deep inside."""
    with pytest.raises((TypeError, ValueError)):
        compact_json({"a": [value]})


def test_a_cycle_is_refused_and_does_no_harm_to_what_comes_after() -> None:
    """The encoder is the same for all texts."""
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(RecursionError):
        compact_json(cycle)

    assert compact_json([[1], [1]]) == "[[1],[1]]"
