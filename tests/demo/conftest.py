"""A conversation with the offline model over plain HTTP, with the cellar's tools run here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from yiemagent.demo.cellar import cellar_tools
from yiemagent.demo.offline import OfflineModel
from yiemagent.testing import WAIT
from yiemagent.tools.registry import ToolRegistry

_MOST_TURNS = 8


class Talk:
    """Asks questions, answers the tool calls, and keeps what was called and said."""

    def __init__(self, session: requests.Session, base_url: str) -> None:
        self._session = session
        self._url = f"{base_url}/chat/completions"
        self._functions = {function.__name__: function for function in cellar_tools()}
        self.tools = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.wire_schema),
                },
            }
            for tool in ToolRegistry(cellar_tools()).specs
        ]
        self.messages: list[dict[str, Any]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        """The calls for the last question, in order."""
        self.turns = 0
        """The model calls for the last question."""

    def post(self, **more: Any) -> requests.Response:
        """Send the conversation as it is."""
        body = {"model": "any", "messages": self.messages, "tools": self.tools, **more}
        return self._session.post(self._url, json=body, timeout=WAIT)

    def ask(self, question: str) -> str:
        """Ask and return the answer."""
        self.messages.append({"role": "user", "content": question})
        self.calls, self.turns = [], 0
        while self.turns < _MOST_TURNS:
            self.turns += 1
            response = self.post()
            assert response.status_code == 200, response.text
            message = response.json()["choices"][0]["message"]
            self.messages.append(message)
            if not message.get("tool_calls"):
                return str(message["content"])
            for call in message["tool_calls"]:
                self.messages.append(self._result(call))
        raise AssertionError(f"no answer after {_MOST_TURNS} turns: {self.calls}")

    def _result(self, call: dict[str, Any]) -> dict[str, Any]:
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        self.calls.append((name, arguments))
        try:
            content = json.dumps(self._functions[name](**arguments), ensure_ascii=False)
        except ValueError as error:
            content = str(error)
        return {"role": "tool", "tool_call_id": call["id"], "content": content}


@pytest.fixture
def offline() -> Iterator[OfflineModel]:
    """The offline model, served for one test."""
    with OfflineModel() as model:
        yield model


@pytest.fixture
def talk(offline: OfflineModel) -> Iterator[Talk]:
    """A fresh conversation with it."""
    with requests.Session() as session:
        session.trust_env = False
        yield Talk(session, offline.base_url)
