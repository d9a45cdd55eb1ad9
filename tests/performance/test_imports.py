"""What importing the package must not load: everything that only a use of it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.servers

HEAVY = (
    "requests",
    "urllib3",
    "jsonschema",
    "nats",
    "asyncio",
    "ssl",
    "http.client",
    "sqlite3",
    "concurrent.futures",
    "importlib.metadata",
    "dataclasses",
    "inspect",
    "email",
    "json",
)
"""``import yiemagent`` loads names when they are used, so none of these."""

UNUSED = ("requests", "jsonschema", "nats", "asyncio", "sqlite3", "yiemagent.mcp", "yiemagent.demo")
"""An agent with an HTTP model and plain functions needs none of these to be made."""

NET = ("urllib3", "ssl", "http.client", "email")
"""They come with the first request over HTTP: gevent cannot patch ssl any more once urllib3 has loaded it."""


def _loaded(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    # Without site, where an editable installation loads modules of its own.
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{script}"]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(said.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    """Decision: names load when they are first used (PEP 562)."""
    loaded = _loaded("import yiemagent")

    assert sorted(loaded & set(HEAVY)) == []
    assert sorted(name for name in loaded if name.startswith("yiemagent")) == ["yiemagent"]


def test_making_an_agent_loads_only_what_it_is_made_of() -> None:
    """Issue 7: from import to the first answer."""
    code = (
        "from yiemagent import Agent, OpenAIChat\n"
        "def add(a: int, b: int) -> int:\n    'Add.'\n    return a + b\n"
        "Agent(OpenAIChat('m', base_url='http://127.0.0.1:9/v1', api_key='k'), tools=[add])"
    )

    assert sorted(_loaded(code) & set(UNUSED)) == []


def test_what_http_needs_is_loaded_with_the_first_request() -> None:
    """D-12: an application may make its agents first and be patched afterwards."""
    made = _loaded("from yiemagent import Agent, OpenAIChat\nAgent(OpenAIChat('m', api_key='k'))")

    assert sorted(made & set(NET)) == []


def test_a_model_without_http_needs_none_of_it() -> None:
    """A function as the model, or a scripted one."""
    answer = "lambda request, *, event_sink: {'role': 'assistant', 'content': 'x'}"

    assert sorted(_loaded(f"from yiemagent import Agent\nAgent({answer}).run('x')") & set(NET)) == []
