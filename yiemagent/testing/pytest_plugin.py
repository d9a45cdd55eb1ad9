"""A pytest fixture for cassettes of model traffic::

    pytest_plugins = ["yiemagent.testing.pytest_plugin"]

    def test_my_agent(cassette):
        agent = Agent(cassette(OpenAIChat("gpt-5-mini")), tools=[...])

The first run records to ``cassettes/<file>.<test>.json`` beside the test, later ones replay;
``YIEMAGENT_RECORD=1`` records again.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Callable

import pytest

from yiemagent.model import Llm
from yiemagent.testing.cassette import record, replay

__all__ = ["cassette"]


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Callable[[Llm], Llm]:
    """``cassette(llm)``: records *llm* in the first run of a test, and replays it later."""
    test = pathlib.Path(str(request.node.path))
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", f"{test.stem}.{request.node.name}")
    path = test.parent / "cassettes" / f"{name}.json"

    def make(llm: Llm) -> Llm:
        if path.exists() and not os.environ.get("YIEMAGENT_RECORD"):
            return replay(path)
        return record(llm, path)

    return make
