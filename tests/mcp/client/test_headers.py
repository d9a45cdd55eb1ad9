"""Requests mirrored into headers, by the examples of the specification."""

from __future__ import annotations

from typing import Any

import pytest

from yiemagent.mcp.headers import (
    encode_header_value,
    mirrored_headers,
    parameter_headers,
    read_parameter_headers,
)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("a b\tc", "a b\tc"),
        ("x", "x"),
        ("", ""),
    ],
)
def test_values_are_encoded_as_the_specification_shows(value: str, encoded: str) -> None:
    """Protocol 2026-07-28, "Value Encoding"."""
    assert encode_header_value(value) == encoded


def test_method_and_name_are_mirrored_where_the_method_has_one() -> None:
    """Protocol 2026-07-28, "Standard Request Headers"."""
    assert mirrored_headers("2026-07-28", "tools/call", {"name": "get_weather"}) == {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "get_weather",
    }
    assert mirrored_headers("v", "resources/read", {"uri": "file:///ä"})["Mcp-Name"].startswith("=?base64?")
    assert "Mcp-Name" not in mirrored_headers("v", "tools/list", {"name": "x"})


def _schema(**annotated: Any) -> dict[str, Any]:
    return {"type": "object", "properties": annotated}


def test_annotated_parameters_become_headers() -> None:
    """Protocol 2026-07-28, "Custom Headers from Tool Parameters"."""
    schema = _schema(
        region={"type": "string", "x-mcp-header": "Region"},
        deep={"type": "object", "properties": {"size": {"type": "integer", "x-mcp-header": "Size"}}},
        dry={"type": "boolean", "x-mcp-header": "Dry-Run"},
        plain={"type": "string"},
    )
    paths = read_parameter_headers(schema)
    arguments = {"region": "eu", "deep": {"size": 42}, "dry": True, "plain": "x"}
    assert parameter_headers(paths, arguments) == {
        "Mcp-Param-Region": "eu",
        "Mcp-Param-Size": "42",
        "Mcp-Param-Dry-Run": "true",
    }


def test_absent_and_null_parameters_have_no_header() -> None:
    """The same table: null and missing are omitted."""
    paths = read_parameter_headers(_schema(region={"type": "string", "x-mcp-header": "Region"}))
    assert parameter_headers(paths, {}) == {}
    assert parameter_headers(paths, {"region": None}) == {}
    assert parameter_headers(paths, {"region": {"odd": 1}}) == {}


def test_whole_numbers_have_no_decimals_and_unsafe_ones_no_header() -> None:
    """Integers must be within the safe range of JavaScript."""
    paths = read_parameter_headers(_schema(n={"type": "integer", "x-mcp-header": "N"}))
    assert parameter_headers(paths, {"n": 42.0}) == {"Mcp-Param-N": "42"}
    assert parameter_headers(paths, {"n": 2**53}) == {}


@pytest.mark.parametrize(
    "schema",
    [
        _schema(a={"type": "string", "x-mcp-header": ""}),
        _schema(a={"type": "string", "x-mcp-header": "two words"}),
        _schema(a={"type": "string", "x-mcp-header": "a\r\nb"}),
        _schema(a={"type": "string", "x-mcp-header": 7}),
        _schema(a={"type": "number", "x-mcp-header": "A"}),
        _schema(a={"type": "object", "x-mcp-header": "A"}),
        _schema(a={"x-mcp-header": "A"}),
        _schema(a={"type": "string", "x-mcp-header": "A"}, b={"type": "string", "x-mcp-header": "a"}),
        _schema(a={"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}),
        _schema(a={"anyOf": [{"type": "string", "x-mcp-header": "A"}]}),
        {"type": "object", "x-mcp-header": "Root"},
        {"$defs": {"d": {"type": "string", "x-mcp-header": "A"}}, "type": "object"},
        {"type": "object", "if": {"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}},
    ],
)
def test_annotations_that_break_the_rules_are_refused(schema: dict[str, Any]) -> None:
    """Such a tool must be left out of the list."""
    with pytest.raises(ValueError, match="x-mcp-header"):
        read_parameter_headers(schema)


def test_a_parameter_that_is_only_named_like_the_annotation_is_none() -> None:
    """A property may have any name."""
    schema = _schema(**{"x-mcp-header": {"type": "string"}})
    assert read_parameter_headers(schema) == {}
    assert read_parameter_headers(_schema(a={"type": "string", "default": {"x-mcp-header": "A"}})) == {}


def test_a_schema_without_end_is_refused_in_bounded_time() -> None:
    """Schemas come from strangers."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(500):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(ValueError, match="nested"):
        read_parameter_headers(schema)
