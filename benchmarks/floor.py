"""The floor: the same exchanges with one requests session, json, and a dict of functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from benchmarks.jobs import history_text

NAME = "floor"
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


class Model:
    """A session and where it posts to."""

    def __init__(self, url: str) -> None:
        self.url = url + "/v1/chat/completions"
        self.session = requests.Session()
        self.session.headers["Authorization"] = "Bearer sk-bench"

    def post(self, body: dict[str, Any], *, stream: bool = False) -> requests.Response:
        headers = {"Content-Type": "application/json"}
        return self.session.post(self.url, data=json.dumps(body), headers=headers, stream=stream)


class Agent:
    """A model and its tools."""

    def __init__(self, url: str, functions: Sequence[Callable[..., Any]], *, parallel: bool = False) -> None:
        self.model = Model(url)
        self.functions = {function.__name__: function for function in functions}
        self.specs = [
            {
                "type": "function",
                "function": {"name": f.__name__, "description": f.__doc__, "parameters": SCHEMA},
            }
            for f in functions
        ]

    def run(self, prompt: str, history: Sequence[dict[str, Any]] = ()) -> str:
        """One conversation, after *history*; the final text."""
        messages: list[dict[str, Any]] = [*history, {"role": "user", "content": prompt}]
        while True:
            body = {"model": "mock", "messages": messages, "tools": self.specs}
            message = json.loads(self.model.post(body).content)["choices"][0]["message"]
            messages.append(message)
            calls = message.get("tool_calls")
            if not calls:
                return str(message["content"])
            for call, output in zip(calls, self._outputs(calls), strict=True):
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(output)})

    def stream(self, prompt: str) -> int:
        """One streamed answer; the number of deltas seen."""
        body = {
            "model": "mock",
            "messages": [{"role": "user", "content": prompt}],
            "tools": self.specs,
            "stream": True,
        }
        seen = 0
        for line in self.model.post(body, stream=True).iter_lines(chunk_size=None):
            if line.startswith(b"data: ") and line != b"data: [DONE]":
                choices = json.loads(line[6:])["choices"]
                if choices and choices[0]["delta"].get("content"):
                    seen += 1
        return seen

    def _outputs(self, calls: list[dict[str, Any]]) -> list[Any]:
        if len(calls) == 1:
            return [self._call(calls[0])]
        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(self._call, calls))

    def _call(self, call: dict[str, Any]) -> Any:
        function = call["function"]
        return self.functions[function["name"]](**json.loads(function["arguments"]))


def history(number: int) -> list[dict[str, Any]]:
    """*number* messages of about a hundred characters."""
    return [{"role": "assistant" if n % 2 else "user", "content": history_text(n)} for n in range(number)]
