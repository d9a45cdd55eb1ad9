"""A real Jupyter kernel, driven as a notebook drives it."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

jupyter_client = pytest.importorskip("jupyter_client")

pytestmark = [
    pytest.mark.servers,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

HERE = pathlib.Path(__file__).parent


def _of_cell(message: dict[str, Any]) -> bool:
    return bool(message["parent_header"].get("msg_type") == "execute_request")


class Notebook:
    """Runs cells in a kernel and collects what they print and raise."""

    def __init__(self) -> None:
        self.manager = jupyter_client.KernelManager(kernel_name="python3")
        self.manager.start_kernel(env={**os.environ, "PYTHONPATH": str(HERE)})
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, code: str, *, interrupt_at: str | None = None) -> tuple[str, str]:
        """The text a cell printed and the name of what it raised; interrupted once it printed that."""
        self.client.execute(code)
        printed, raised = "", ""
        while True:
            message: dict[str, Any] = self.client.get_iopub_msg(timeout=30)
            kind, content = message["msg_type"], message["content"]
            if kind == "stream" and content["name"] == "stdout":
                printed += content["text"]
                if interrupt_at is not None and interrupt_at in printed:
                    interrupt_at = None
                    self.manager.interrupt_kernel()
            elif kind == "error":
                raised = content["ename"]
            elif kind == "status" and content["execution_state"] == "idle" and _of_cell(message):
                return printed.strip(), raised

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)
        self.manager.cleanup_resources()


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    book = Notebook()
    yield book
    book.close()


def test_an_agent_runs_in_cells_is_interrupted_and_runs_again(notebook: Notebook) -> None:
    """D-01, D-08, F-22: no event-loop error, Ctrl-C gets through, the next cell has its own answer."""
    notebook.run("from echo_model import EchoModel, SilentModel; from yiemagent import Agent")
    notebook.run("def whoami(name: str) -> str:\n    'Say it.'\n    return name\n")
    notebook.run("agent = Agent(EchoModel(), tools=[whoami])")
    notebook.run("import asyncio; loop = asyncio.get_running_loop()")

    assert notebook.run("print(agent.run('one').text)") == ("one", "")
    assert notebook.run("for event in agent.stream('two'): pass\nprint(event.type)") == ("agent_end", "")

    interrupted = notebook.run(
        "silent = SilentModel(); agent.model = silent\n"
        "agent.subscribe(lambda e: print('asked', flush=True) if e.type == 'message_end' else None)\n"
        "agent.run('three')",
        interrupt_at="asked",
    )
    assert interrupted[1] == "KeyboardInterrupt"

    assert notebook.run("print(agent.wait_for_idle(5))")[0].endswith("True")
    assert notebook.run("agent.model = EchoModel(); print(agent.run('four').text)")[0].endswith("four")
    roles = notebook.run("print([m.role for m in agent.messages[-4:]])")
    assert roles == ("['user', 'assistant', 'tool_result', 'assistant']", "")
