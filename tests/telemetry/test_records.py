"""What may leave the process."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yiemagent.telemetry.records import sanitized


@pytest.mark.parametrize(
    "key",
    [
        "api_key",
        "apikey",
        "API-Key",
        "Authorization",
        "password",
        "private_key",
        "prompt",
        "response",
        "secret",
        "secrets",
        "stderr",
        "stdout",
        "token",
        "access_token",
        "Set-Cookie",
    ],
)
def test_keys_of_secrets_and_content_are_left_out(key):
    """TL-2."""
    assert sanitized({key: "x", "kept": 1}) == {"kept": 1}


def test_they_are_left_out_at_every_depth():
    """TL-2."""
    assert sanitized({"a": [{"token": "x", "b": {"password": "y", "c": 1}}]}) == {"a": [{"b": {"c": 1}}]}


def test_counts_of_tokens_are_no_secrets():
    """Only whole names count."""
    numbers = {"input_tokens": 5, "token_count": 7, "prompt_chars": 9}

    assert sanitized(numbers) == numbers


def test_long_strings_are_cut_between_characters():
    """TL-2: 4,096 bytes."""
    cut = sanitized({"text": "é" * 5_000, "ascii": "a" * 5_000, "short": "é"})

    assert len(cut["text"].encode()) == 4_096
    assert len(cut["ascii"]) == 4_096
    assert cut["short"] == "é"


def test_many_items_and_great_depth_are_cut():
    """A record stays small."""
    deep = {}
    for _ in range(50):
        deep = {"d": deep}

    assert len(sanitized({"list": list(range(1_000))})["list"]) == 200
    assert "<dict>" in json.dumps(sanitized(deep))


def test_what_is_no_plain_data_is_named():
    """No `repr`, which may hold anything."""
    assert sanitized({"error": ValueError("secret"), "bytes": b"x"}) == {
        "error": "<ValueError>",
        "bytes": "<bytes>",
    }


def test_the_payload_is_copied():
    """Later changes of the application do not reach a record."""
    payload = {"list": [1]}
    made = sanitized(payload)
    payload["list"].append(2)

    assert made == {"list": [1]}


plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.binary(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=8), plain, max_size=4))
def test_a_record_can_always_be_written_as_json(payload):
    """TL-2."""
    json.dumps(sanitized(payload)).encode()
