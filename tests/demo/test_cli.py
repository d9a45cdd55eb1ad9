"""The command line, run as a newcomer runs it (issue 2, part 7)."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from yiemagent import Agent
from yiemagent.demo.chat import chat
from yiemagent.demo.cli import main
from yiemagent.demo.offline import OfflineModel
from yiemagent.demo.screen import Screen
from yiemagent.messages import AssistantMessage
from yiemagent.testing import Gate, ScriptedLlm, call, calls, run_in_thread, say
from yiemagent.testing.loopback import LoopbackServer


@dataclass
class Ran:
    """What a run of the command line left."""

    code: int
    out: str
    err: str


def _run(*arguments: str, stdin: str = "", environment: dict[str, str] | None = None) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    code = main(arguments, environment=environment or {}, stdin=io.StringIO(stdin), stdout=out, stderr=err)
    return Ran(code, out.getvalue(), err.getvalue())


def _chat(agent: Agent, questions: Sequence[str]) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    went_well = chat(agent, list, Screen(out, err, {}), io.StringIO("\n".join(questions)))
    return Ran(0 if went_well else 1, out.getvalue(), err.getvalue())


@pytest.mark.servers
def test_the_demo_answers_its_own_question_by_calling_a_tool() -> None:
    """``make demo``: says that it is a stand-in, shows the call, the answer, and exits 0."""
    ran = _run("demo")

    assert ran.code == 0
    assert ran.err == ""
    assert "offline stand-in" in ran.out
    assert "? Which wines have notes of oak and vanilla?" in ran.out
    assert '-> search_wines(query="oak vanilla"' in ran.out
    assert "1. Bodegas Juan Gil Silver Label 2020" in ran.out
    assert "(2 model calls, 1 tool call" in ran.out


@pytest.mark.servers
def test_the_demo_takes_a_question_of_several_words() -> None:
    """With and without quotes."""
    assert "Penfolds Grange" in _run("demo", "What", "is", "the", "most", "expensive", "wine?").out


@pytest.mark.servers
def test_a_real_server_is_asked_when_the_environment_names_one() -> None:
    """``OPENAI_BASE_URL`` alone is enough; the server's own model is taken."""
    with OfflineModel() as server:
        url = server.base_url
        ran = _run("demo", "hello", environment={"OPENAI_BASE_URL": url})

    assert ran.code == 0
    assert f"Model: {server.name} at {url}." in ran.out
    assert "stand-in," not in ran.out.splitlines()[0]


@pytest.mark.servers
def test_options_come_before_the_environment() -> None:
    """``--model`` and ``--base-url``."""
    with OfflineModel() as server:
        url = server.base_url
        ran = _run(
            "demo", "hello", "--model", "mine", "--base-url", url, environment={"OPENAI_BASE_URL": "x"}
        )

    assert ran.code == 0
    assert f"Model: mine at {url}." in ran.out


def test_a_server_that_is_not_there_is_an_error_in_words() -> None:
    """Exit code 1 and the way out, no traceback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    ran = _run("demo", environment={"OPENAI_BASE_URL": url})

    assert ran.code == 1
    assert ran.err == f"error: nothing answers at {url}; is the server running?\n"


def test_a_server_without_a_list_of_models_says_how_to_name_one() -> None:
    """Exit code 1 and the way out."""
    with LoopbackServer(lambda request: request.reply({"error": "no such page"}, 404)) as server:
        ran = _run("demo", environment={"OPENAI_BASE_URL": server.url})

    assert ran.code == 1
    assert "name one with --model or OPENAI_MODEL" in ran.err


def test_a_base_url_that_is_none_is_an_error_in_words() -> None:
    """A typing error in an option."""
    ran = _run("demo", "--base-url", "nonsense", "--model", "x")

    assert ran.code == 1
    assert "base_url must be an http or https URL" in ran.err


def test_without_a_command_it_says_what_there_is() -> None:
    """``python -m yiemagent`` alone."""
    ran = _run()

    assert ran.code == 0
    assert "demo" in ran.out
    assert "chat" in ran.out


@pytest.mark.servers
def test_chat_keeps_the_conversation_until_it_is_told_to_forget() -> None:
    """Follow-ups work, ``/reset`` forgets, ``/tools`` and ``/help`` explain, ``/quit`` leaves."""
    ran = _run(
        "chat",
        stdin="Which reds from Spain are below 20 euros?\nthe second one\n/tools\n/help\n/reset\n/quit\nno\n",
    )

    assert ran.code == 0
    assert "Bodegas Juan Gil Silver Label 2020 is a full-bodied" in ran.out
    assert "pair_with_food: Wines that go with a dish" in ran.out
    assert "(forgotten)" in ran.out
    assert "you> no" not in ran.out


def test_a_failed_answer_in_chat_is_an_error_and_the_conversation_goes_on() -> None:
    """The exit code is that of the last question."""
    with Agent(ScriptedLlm(ValueError("out of grapes"), "Here I am.")) as agent:
        ran = _chat(agent, ["first", "second"])

    assert ran.code == 0
    assert "error: " in ran.err
    assert "out of grapes" in ran.err
    assert "Here I am." in ran.out


def test_ctrl_c_in_chat_stops_the_answer_and_keeps_the_conversation() -> None:
    """The run is aborted, the next question is answered with everything that was said before."""
    gate = Gate()
    llm = ScriptedLlm("One.", say("never heard", before=gate), "Three.")
    interrupter = run_in_thread(lambda: (gate.wait_entered(), signal.raise_signal(signal.SIGINT)))
    try:
        with Agent(llm) as agent:
            ran = _chat(agent, ["first", "second", "third"])
            texts = [message.text for message in agent.messages if isinstance(message, AssistantMessage)]
    finally:
        gate.open()
    interrupter.get()

    assert ran.code == 0
    assert "(stopped; the conversation is kept)" in ran.out
    assert "Three." in ran.out
    assert texts[0] == "One."
    assert texts[-1] == "Three."
    assert any(
        message.role == "assistant" and message.text == "One." for message in llm.requests[-1].messages
    )


@pytest.mark.servers
def test_ctrl_c_in_the_demo_is_a_word_and_exit_code_130() -> None:
    """No traceback."""
    started = threading.Event()

    class Watched(io.StringIO):
        def write(self, text: str) -> int:
            if "->" in text:
                started.set()
                signal.raise_signal(signal.SIGINT)
            return super().write(text)

    out = Watched()
    code = main(["demo"], environment={}, stdin=io.StringIO(), stdout=out, stderr=io.StringIO())

    assert started.is_set()
    assert code == 130
    assert "(stopped)" in out.getvalue()


def test_a_limit_is_said() -> None:
    """A run that reaches its limit is no error, but not silent."""

    def again() -> str:
        """Again."""
        return "again"

    steps = [calls(call("again")) for _ in range(3)]
    with Agent(ScriptedLlm(*steps), tools=[again], max_tool_turns=2) as agent:
        ran = _chat(agent, ["go"])

    assert "(stopped: the limit max_tool_turns was reached)" in ran.out


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_are_left_out_when_they_are_not_wanted(environment: dict[str, str]) -> None:
    """NO_COLOR and TERM=dumb."""
    out = _Terminal()
    Screen(out, out, environment).line("hello", "dim")
    assert out.getvalue() == "hello\n"


def test_colours_are_for_terminals_only() -> None:
    """A pipe gets plain text."""
    terminal, pipe = _Terminal(), io.StringIO()
    Screen(terminal, terminal, {}).line("hello", "dim")
    Screen(pipe, pipe, {}).line("hello", "dim")
    assert terminal.getvalue() == "\x1b[2mhello\x1b[0m\n"
    assert pipe.getvalue() == "hello\n"


@pytest.mark.servers
def test_the_module_runs_as_a_program() -> None:
    """``python -m yiemagent demo``, in a process of its own."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    done = subprocess.run(
        [sys.executable, "-m", "yiemagent", "demo", "hello"],
        env=clean,
        capture_output=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Hello." in done.stdout.decode()


@pytest.mark.servers
def test_a_reader_that_leaves_is_no_traceback() -> None:
    """``python -m yiemagent demo | head -1``."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    command = f"{sys.executable} -m yiemagent demo | head -1"
    done = subprocess.run(["sh", "-c", command], env=clean, capture_output=True, timeout=110, check=False)
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr
