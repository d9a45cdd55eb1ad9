"""gevent's monkey-patching, before and after yiemagent is imported, in processes of their own."""

from __future__ import annotations

import ast
import os
import pathlib
import subprocess
import sys

import pytest

import yiemagent

pytestmark = pytest.mark.servers

HERE = pathlib.Path(__file__).parent

PATCH = "import gevent.monkey; gevent.monkey.patch_all()\n"
USE = """
import gevent, threading
from echo_model import EchoModel
from yiemagent import Agent

ticks = []

def ticker():
    while True:
        ticks.append(1)
        gevent.sleep(0)

def whoami(name: str) -> str:
    "Wait until other greenlets ran, then answer."
    seen = len(ticks)
    while len(ticks) < seen + 3:
        gevent.sleep(0)
    return name

gevent.spawn(ticker)
agent = Agent(EchoModel(), tools=[whoami])
print(agent.run("one", timeout=20).text)
print([event.type for event in agent.stream("two")][-1])
agent.prompt("three")
print(agent.take_response(timeout=20)["content"][0]["text"])
many = [gevent.spawn(lambda n=n: agent.run(str(n), timeout=20).text) for n in range(8)]
gevent.joinall(many, timeout=30)
print(sorted(job.value for job in many))
print(agent.stop())
"""


def run(code: str) -> list[str]:
    process = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
        capture_output=True,
        text=True,
        timeout=90,
        env={**os.environ, "PYTHONPATH": str(HERE)},
    )
    assert process.returncode == 0, process.stderr
    assert "Traceback" not in process.stderr
    return process.stdout.split("\n")[:-1]


EXPECTED = ["one", "agent_end", "three", str([str(n) for n in range(8)]), "True"]


def test_an_agent_works_when_everything_was_patched_before_the_import() -> None:
    """D-12, D-34: waits give way to other greenlets, and greenlets sharing an agent get their answers."""
    assert run(PATCH + USE) == EXPECTED


def test_an_agent_works_when_everything_was_patched_after_the_import() -> None:
    """Nothing of the standard library's threads and queues was kept at import."""
    assert run("import yiemagent; from yiemagent import Agent, tool, OpenAIChat\n" + PATCH + USE) == EXPECTED


HTTP = """
from yiemagent import Agent, OpenAIChat
from yiemagent.demo.offline.server import OfflineModel

with OfflineModel() as server:
    agent = Agent(OpenAIChat("offline", base_url=server.base_url, api_key=""))
    print(agent.run("hello", timeout=20).status)
    agent.stop()
"""


def test_a_model_over_http_works_under_gevent() -> None:
    """The real client, with its sockets and helper threads patched."""
    assert run(PATCH + HTTP) == ["completed"]


PACKAGE = pathlib.Path(yiemagent.__file__).parent
THREADS = {"threading", "_thread", "queue"}


def kept_at_import(tree: ast.AST) -> list[str]:
    """Names of threads, locks and queues that are looked up while the module is imported."""
    found: list[str] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module in THREADS:
            found.append(f"from {node.module} import {', '.join(name.name for name in node.names)}")
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in THREADS:
            found.append(ast.unparse(node))
        elif isinstance(node, ast.AnnAssign):
            found += kept_at_import(node.value) if node.value is not None else []
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for default in [*node.args.defaults, *node.args.kw_defaults, *node.decorator_list]:
                found += kept_at_import(ast.Expression(default)) if default is not None else []
        elif not isinstance(node, ast.Lambda):
            found += kept_at_import(node)
    return found


def test_names_of_threads_and_queues_are_looked_up_when_they_are_used() -> None:
    """D-12: what was kept at import is not patched when the patching comes later."""
    kept = {
        str(path.relative_to(PACKAGE)): names
        for path in PACKAGE.rglob("*.py")
        if (names := kept_at_import(ast.parse(path.read_text("utf-8"))))
    }

    assert kept == {}
