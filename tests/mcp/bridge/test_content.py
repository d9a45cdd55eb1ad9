"""What a model reads of an MCP result, and what the application keeps."""

from __future__ import annotations

from typing import Any

import pytest

from yiemagent.mcp.content import content_blocks, tool_result
from yiemagent.messages import ImageContent, TextContent


def _texts(*blocks: Any) -> list[str]:
    return [block.text for block in content_blocks(blocks) if isinstance(block, TextContent)]


def test_texts_and_images_stay_what_they_are_in_their_order() -> None:
    """Quirk 4: one result mixes text, image and text."""
    content = [
        {"type": "text", "text": "before", "annotations": {"priority": 1}},
        {"type": "image", "data": "iVBO", "mimeType": "image/png"},
        {"type": "text", "text": "after"},
    ]
    assert tool_result({"content": content}).content == (
        TextContent("before"),
        ImageContent("iVBO", "image/png"),
        TextContent("after"),
    )


def test_audio_is_named_with_its_kind_and_size() -> None:
    """E-25."""
    assert _texts({"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}) == [
        "[audio, audio/wav, 6 bytes, not readable here]"
    ]


def test_embedded_resources_show_their_text_or_picture() -> None:
    """Quirk 4, 21: blob or text."""
    text = {"type": "resource", "resource": {"uri": "a://1", "text": "hello", "mimeType": "text/plain"}}
    picture = {"type": "resource", "resource": {"uri": "a://2", "blob": "iVBO", "mimeType": "image/png"}}
    other = {"type": "resource", "resource": {"uri": "a://3", "blob": "AAAA", "mimeType": "application/gzip"}}
    assert content_blocks([text, picture, other]) == (
        TextContent("[resource a://1]\nhello"),
        ImageContent("iVBO", "image/png"),
        TextContent("[resource a://3, application/gzip, 3 bytes, not readable here]"),
    )


def test_links_are_named_with_what_describes_them() -> None:
    """Protocol 2025-06-18: resource_link has no content."""
    link = {
        "type": "resource_link",
        "uri": "file:///a",
        "name": "a",
        "mimeType": "text/x",
        "size": 12,
        "description": "the a",
    }
    assert _texts(link, {"type": "resource_link"}) == [
        "[link to file:///a: a, text/x, the a, 12 bytes]",
        "[link to an unnamed resource]",
    ]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "future", "x": 1},
        {"type": "text"},
        {"type": "text", "text": None},
        {"type": "image"},
        {"type": "resource"},
        {"no": "type"},
        "just a text",
        None,
        7,
    ],
)
def test_blocks_of_an_unknown_shape_are_shown_as_they_are(block: Any) -> None:
    """E-25: no KeyError, a readable placeholder."""
    (shown,) = content_blocks([block])
    assert isinstance(shown, TextContent)
    assert shown.text.startswith("[content of type ")


def test_a_huge_unknown_block_is_cut() -> None:
    """It must not fill the window."""
    (shown,) = _texts({"type": "future", "x": "y" * 100_000})
    assert len(shown) < 3_000
    assert "characters" in shown


def test_everything_is_kept_as_it_came() -> None:
    """Issue 5 part 5: all content blocks kept; field problem 41."""
    content = [{"type": "audio", "data": "AA==", "mimeType": "audio/wav"}]
    result = {"content": content, "structuredContent": {"n": 1}, "_meta": {"m": 1}}
    made = tool_result(result, server="srv", tool="t", warnings=["w"])
    assert made.details == {
        "server": "srv",
        "tool": "t",
        "content": tuple(content),
        "structured_content": {"n": 1},
        "meta": {"m": 1},
        "warnings": ("w",),
    }


@pytest.mark.parametrize(
    ("texts", "structured"),
    [
        (['{"a": 1, "b": [2]}'], {"b": [2], "a": 1}),
        (["3"], {"result": 3}),
        (["plain"], {"result": "plain"}),
        (['["a","b"]'], {"result": ["a", "b"]}),
        (["a", "b"], {"result": ["a", "b"]}),
        (["1", "2"], [1, 2]),
    ],
)
def test_a_structured_value_that_a_text_says_already_is_not_said_twice(texts: Any, structured: Any) -> None:
    """Quirks 5, 6: servers repeat it for older clients, wrapped or in pieces."""
    content = [{"type": "text", "text": text} for text in texts]
    made = tool_result({"content": content, "structuredContent": structured})
    assert [block.text for block in made.content if isinstance(block, TextContent)] == texts


def test_a_structured_value_that_no_text_says_is_said() -> None:
    """Field problem 41: an image and a structured value: keep both, never drop one."""
    content = [{"type": "image", "data": "iVBO", "mimeType": "image/png"}]
    made = tool_result({"content": content, "structuredContent": {"t": 22}})
    assert made.content == (ImageContent("iVBO", "image/png"), TextContent('{"t": 22}'))
    assert tool_result({"content": [], "structuredContent": {"t": 22}}).text == '{"t": 22}'


def test_an_error_of_the_tool_is_an_error_with_its_text() -> None:
    """E-05."""
    made = tool_result({"content": [{"type": "text", "text": "no such city"}], "isError": True})
    assert (made.is_error, made.text) == (True, "no such city")
    assert made.details["error_type"] == "mcp_tool_error"
    assert not tool_result({"content": [{"type": "text", "text": "x"}], "isError": "yes"}).is_error


@pytest.mark.parametrize(
    "result", [{}, {"content": []}, {"content": None}, {"content": [{"type": "text", "text": " "}]}]
)
def test_an_empty_result_is_never_an_empty_text(result: Any) -> None:
    """Case C-10."""
    assert tool_result(result).text == "(no output)"


def test_a_result_is_untrusted_unless_it_is_said_to_be() -> None:
    """Issue 5 part 5."""
    assert tool_result({"content": []}).trust == "untrusted"
    assert tool_result({"content": []}, trust="trusted").trust == "trusted"


def test_results_of_sloppy_callables_are_read_too() -> None:
    """The Julia design's servers are written by hand."""
    assert tool_result({"content": "just a text"}).text == "just a text"
    assert tool_result("bare").text == "bare"
    assert tool_result([1, 2]).text == "[1, 2]"


def test_half_a_surrogate_pair_cannot_break_the_next_request() -> None:
    """Case C-27."""
    assert tool_result({"content": [{"type": "text", "text": "a\ud83d"}]}).text == "a\ufffd"
