"""Whatever is asked, the offline model comes to an answer (issue 2, part 7)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from yiemagent.demo.cellar import cellar_tools
from yiemagent.demo.offline.reply import reply_to
from yiemagent.demo.offline.request_checks import check_request
from yiemagent.tools.arguments import prepare_call_arguments
from yiemagent.tools.registry import ToolRegistry

_TOOLS = ToolRegistry(cellar_tools())
_OFFERED = [
    {"type": "function", "function": {"name": tool.name, "parameters": dict(tool.wire_schema)}}
    for tool in _TOOLS.specs
]
_WORDS = [
    "which",
    "what",
    "how",
    "many",
    "wines",
    "red",
    "white",
    "rosé",
    "sparkling",
    "sweet",
    "dry",
    "port",
    "champagne",
    "burgundy",
    "barolo",
    "italy",
    "french",
    "european",
    "riesling",
    "pinot",
    "noir",
    "oak",
    "vanilla",
    "chocolate",
    "lemon",
    "without",
    "not",
    "no",
    "below",
    "above",
    "between",
    "20",
    "50",
    "euros",
    "2015",
    "2010",
    "older",
    "than",
    "cheaper",
    "dearer",
    "cheapest",
    "most",
    "expensive",
    "best",
    "oldest",
    "the",
    "first",
    "second",
    "third",
    "last",
    "it",
    "them",
    "one",
    "ones",
    "both",
    "compare",
    "and",
    "or",
    "versus",
    "difference",
    "like",
    "similar",
    "to",
    "tell",
    "me",
    "about",
    "more",
    "show",
    "all",
    "list",
    "regions",
    "grapes",
    "countries",
    "stock",
    "worth",
    "bottles",
    "price",
    "average",
    "of",
    "notes",
    "taste",
    "pair",
    "with",
    "duck",
    "fish",
    "lamb",
    "cheese",
    "cake",
    "dinner",
    "sassicaia",
    "ridge",
    "musar",
    "tignanello",
    "lynch",
    "bages",
    "tempier",
    "food",
    "goes",
    "is",
    "in",
    "from",
    "for",
    "a",
    "do",
    "you",
    "have",
    "any",
    "hello",
    "thanks",
    "also",
    "only",
    "but",
    "instead",
    "beer",
    "latvia",
    "zork",
    "?",
    ",",
    ":",
    "3",
    "five",
    '"',
]
_MOST_TURNS = 8


def _result(name: str, arguments: dict[str, Any]) -> str:
    """What the tool says; wrong arguments are not excused."""
    tool = _TOOLS.get(name)
    assert tool is not None
    checked = prepare_call_arguments(tool, arguments)
    try:
        return json.dumps(tool(**checked), ensure_ascii=False)
    except ValueError as error:
        return str(error)


@given(
    st.lists(
        st.one_of(
            st.text(max_size=20), st.lists(st.sampled_from(_WORDS), min_size=1, max_size=9).map(" ".join)
        ),
        min_size=1,
        max_size=3,
    )
)
def test_every_conversation_comes_to_an_answer_by_valid_calls(questions: list[str]) -> None:
    """No question raises, none loops, every call fits its schema, and the requests stay valid."""
    messages: list[dict[str, Any]] = []
    for question in questions:
        messages.append({"role": "user", "content": question})
        for _ in range(_MOST_TURNS):
            request = check_request(
                json.dumps({"model": "any", "messages": messages, "tools": _OFFERED}).encode()
            )
            reply = reply_to(request)
            if not reply.calls:
                break
            calls = [
                {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for call_id, (name, arguments) in reply.calls
            ]
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            for call_id, (name, arguments) in reply.calls:
                messages.append(
                    {"role": "tool", "tool_call_id": call_id, "content": _result(name, arguments)}
                )
        assert reply.text
        messages.append({"role": "assistant", "content": reply.text})
