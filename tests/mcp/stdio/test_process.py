"""Server processes: how they start, die, and are ended."""

from __future__ import annotations

import gc
import json
import logging
import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.errors import ConfigurationError, McpConnectionError
from yiemagent.mcp.stdio import McpStdio, StdioTransport
from yiemagent.testing import run_in_thread

SERVER = str(pathlib.Path(__file__).with_name("child_server.py"))

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(not pathlib.Path("/proc/self/fd").exists(), reason="needs /proc"),
]


def _where(client: McpStdio) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.call_tool("where").text)
    return found


# --- starting

STARTER = """
import os, sys
from yiemagent.mcp.stdio import McpStdio

if len(sys.argv) > 2:
    os.open(sys.argv[2], os.O_RDWR)  # A session without a terminal takes the first one it opens.
with McpStdio(sys.executable, [sys.argv[1]]) as client:
    print(client.call_tool("where").text)
"""


def _where_started(*terminal: str) -> tuple[int, dict[str, Any]]:
    """Our session, and where the server of a program in it is."""
    command = [sys.executable, "-c", STARTER, SERVER, *terminal]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as starter:
        assert starter.stdout is not None
        return starter.pid, json.loads(starter.stdout.read())


def test_a_server_leads_a_group_in_our_session_where_there_is_no_terminal() -> None:
    """E-27; issue 7: the kernel makes each hand-over to another session dearer."""
    session, where = _where_started()
    assert where["group"] == where["pid"]
    assert where["session"] == session


def test_a_server_has_a_session_of_its_own_where_there_is_a_terminal() -> None:
    """E-27: a program of another group that reads from the terminal is stopped, and would never answer."""
    master, slave = os.openpty()
    try:
        session, where = _where_started(os.ttyname(slave))
    finally:
        os.close(master)
        os.close(slave)
    assert where["group"] == where["session"] == where["pid"] != session


def test_the_process_starts_with_the_first_call(spawn: Any, tmp_path: pathlib.Path) -> None:
    """Issue 5 part 6: lazily."""
    started = tmp_path / "started"
    client = spawn({"started": started})
    assert client.pid is None
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
    assert started.read_text() == f"{client.pid}\n"


def test_a_program_that_is_not_there_is_named_with_the_path() -> None:
    """E-28; field problem 39."""
    with McpStdio("no-such-program-7", ["x"], env={"PATH": "/nowhere"}) as client:
        with pytest.raises(McpConnectionError, match=r"no program 'no-such-program-7' in PATH=/nowhere"):
            client.connect()


def test_a_program_that_cannot_be_executed_is_named(tmp_path: pathlib.Path) -> None:
    """OSError of exec, in our words."""
    script = tmp_path / "script"
    script.write_text("no shebang")
    script.chmod(0o755)
    with McpStdio(str(script)) as client:
        with pytest.raises(McpConnectionError, match="cannot start"):
            client.connect()


def test_a_server_that_exits_at_once_is_named_with_exit_code_and_stderr(spawn: Any) -> None:
    """Field problems 13, 24: "missing API key"."""
    client = spawn({"exit_at_start": 2, "stderr": "error: MISSING_KEY is not set"})
    with pytest.raises(McpConnectionError) as caught:
        client.list_tools()
    assert "child_server.py" in str(caught.value)
    assert "ended with exit code 2" in str(caught.value)
    assert "error: MISSING_KEY is not set" in str(caught.value)


def test_a_server_may_be_over_before_its_starter_has_gone_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """E-03, E-08: the reason is told, and not to somebody who is not there yet."""

    class Hasty(threading.Thread):
        def start(self) -> None:
            super().start()
            if self.name == f"yiemagent-mcp-{os.path.basename(sys.executable)}":
                self.join()  # It serves the program to its end.

    monkeypatch.setattr("yiemagent.mcp.child.threading.Thread", Hasty)
    with McpStdio(sys.executable, ["-c", "raise SystemExit('no key')"], max_restarts=0) as client:
        with pytest.raises(McpConnectionError, match=r"ended with exit code 1.*no key"):
            client.call_tool("echo")


def test_a_server_that_dies_of_the_probe_is_started_again(spawn: Any, tmp_path: pathlib.Path) -> None:
    """Some old servers do not survive a request before initialize."""
    started = tmp_path / "started"
    client = spawn({"die_on_probe": 1, "started": started})
    assert client.connect().protocol_version == "2025-11-25"
    assert len(started.read_text().split()) == 2


def test_the_environment_is_the_safe_base_and_what_was_given(
    spawn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field problems 39, 40: PATH stays, keys do not leak."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("UV_CACHE_DIR", "/cache")
    env = json.loads(spawn(env={"KEY": "1"}).call_tool("env").text)
    assert env["KEY"] == "1"
    assert env["PATH"] == os.environ["PATH"]
    assert "OPENAI_API_KEY" not in env
    env = json.loads(spawn(inherit_env=["UV_*"]).call_tool("env").text)
    assert env["UV_CACHE_DIR"] == "/cache"
    assert "OPENAI_API_KEY" not in env
    assert json.loads(spawn(inherit_env=True).call_tool("env").text)["OPENAI_API_KEY"] == "sk-secret"


def test_the_working_folder_is_the_given_one(spawn: Any, tmp_path: pathlib.Path) -> None:
    """cwd=."""
    assert spawn(cwd=tmp_path).call_tool("cwd").text == str(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"args": "a b"}, "list of texts"),
        ({"args": [1]}, "list of texts"),
        ({"cwd": "/no/such/folder"}, "is no folder"),
        ({"inherit_env": "PATH"}, "inherit_env, unless True or False, must be a list of texts, got 'PATH'"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options: dict[str, Any], message: str) -> None:
    """Messages name the thing."""
    with pytest.raises(ConfigurationError, match=message):
        McpStdio("python", **options)


def test_secrets_in_the_command_line_are_masked_in_messages() -> None:
    """Decision 28: no keys in logs and messages."""
    args = ["-y", "srv", "--api-key", "k1", "--token=t1", "PASSWORD=p1", "sk-abc", "--verbose"]
    label = StdioTransport("npx", args).label
    assert label == "npx -y srv --api-key '***' '--token=***' 'PASSWORD=***' '***' --verbose"


# --- dying


def test_a_crash_during_a_call_fails_it_at_once_with_the_reason(spawn: Any) -> None:
    """E-08; field problem 22: exit code and stderr."""
    client = spawn()
    with pytest.raises(McpConnectionError, match=r"ended with exit code 7.*last words on stderr"):
        client.call_tool("crash", {"code": 7})
    with pytest.raises(McpConnectionError, match="was ended by SIGKILL"):
        client.call_tool("kill_self")


def test_a_crash_fails_all_calls_in_flight(spawn: Any) -> None:
    """E-08: every pending call."""
    client = spawn()
    client.connect()
    waiting = [run_in_thread(client.call_tool, "silent") for _ in range(3)]
    client.call_tool("echo")
    os.kill(client.pid, signal.SIGKILL)
    for outcome in waiting:
        with pytest.raises(McpConnectionError, match="SIGKILL"):
            outcome.get()


def test_a_dead_server_is_started_again_by_the_next_call(spawn: Any, tmp_path: pathlib.Path) -> None:
    """Field problem 23; tools/call is never sent twice."""
    log = tmp_path / "log"
    client = spawn({"log": log})
    with pytest.raises(McpConnectionError):
        client.call_tool("crash")
    assert client.call_tool("echo").text == "{}"
    methods = [json.loads(line)["method"] for line in log.read_text().splitlines()]
    assert methods == ["server/discover", "tools/call", "server/discover", "tools/call"]


def test_a_server_that_always_crashes_is_started_four_times_at_most(
    spawn: Any, tmp_path: pathlib.Path
) -> None:
    """Issue 5 part 6: at most N times, 3 by default; then fail fast."""
    started = tmp_path / "started"
    client = spawn({"started": started})
    for _ in range(4):
        with pytest.raises(McpConnectionError, match="ended with exit code 3"):
            client.call_tool("crash")
    with pytest.raises(McpConnectionError, match=r"max_restarts=3.*ended with exit code 3"):
        client.call_tool("crash")
    assert len(started.read_text().split()) == 4


def test_a_server_that_closes_its_output_is_given_up(spawn: Any, gone: Any) -> None:
    """It lives, but nothing will ever come."""
    client = spawn()
    client.connect()
    pid = client.pid
    with pytest.raises(McpConnectionError, match="closed its output"):
        client.call_tool("close_stdout")
    gone(pid)


# --- ending


def test_a_server_that_ends_at_eof_is_not_signalled(spawn: Any, tmp_path: pathlib.Path, gone: Any) -> None:
    """Spec: EOF first."""
    client = spawn({"record_eof": tmp_path / "eof", "record_term": tmp_path / "term"})
    client.connect()
    pid = client.pid
    client.close()
    gone(pid)
    assert (tmp_path / "eof").exists()
    assert not (tmp_path / "term").exists()


def test_a_server_that_ignores_eof_gets_sigterm(spawn: Any, tmp_path: pathlib.Path, gone: Any) -> None:
    """Field problems 7, 10; quirk 16."""
    client = spawn({"ignore_eof": 1, "record_term": tmp_path / "term"})
    client.connect()
    pid = client.pid
    client.close(timeout=0.1)
    gone(pid)
    assert (tmp_path / "term").read_text() == "SIGTERM\n"


def test_a_server_that_ignores_everything_is_killed(spawn: Any, gone: Any) -> None:
    """Field problem 7: bounded."""
    client = spawn({"ignore_eof": 1, "ignore_term": 1})
    client.connect()
    pid = client.pid
    client.close(timeout=0.1)
    gone(pid)


@pytest.mark.parametrize("kind", ["plain", "stubborn"])
def test_the_children_of_a_server_end_with_it(spawn: Any, gone: Any, kind: str) -> None:
    """E-27, field problem 8: npx starts node; 144 orphans in one day elsewhere."""
    client = spawn({"grandchild": kind})
    where = _where(client)
    assert where["group"] == where["pid"]
    assert where["group"] != os.getpgid(0)
    client.close()
    gone(where["pid"])
    gone(where["child"])


def test_the_children_of_a_server_may_end_in_order(spawn: Any, gone: Any, tmp_path: pathlib.Path) -> None:
    """E-27: SIGTERM first; a database wants to write."""
    client = spawn({"grandchild": "orderly", "record_child": tmp_path / "term"})
    child = _where(client)["child"]
    client.close()
    gone(child)
    assert (tmp_path / "term").read_text() == "SIGTERM"


def test_the_children_of_a_server_that_crashed_end_too(spawn: Any, gone: Any) -> None:
    """E-27: at the crash, not at some later close."""
    client = spawn({"grandchild": "plain"})
    child = _where(client)["child"]
    with pytest.raises(McpConnectionError):
        client.call_tool("crash")
    gone(child)


def test_a_dropped_client_ends_its_server(gone: Any) -> None:
    """Issue 5 part 6: garbage collection."""
    client = McpStdio(sys.executable, [SERVER, "ignore_eof=1"])
    client.connect()
    pid = client.pid
    assert pid is not None
    del client
    gc.collect()
    gone(pid)


def test_everything_is_given_back(spawn: Any, open_files: Callable[[], set[Any]]) -> None:
    """No descriptor and no thread is left, however the server ended."""
    warm = spawn()
    warm.call_tool("echo")
    warm.close()
    before = open_files()
    for _ in range(5):
        client = spawn({"ignore_eof": 1})
        client.call_tool("echo")
        client.close(timeout=0.05)
        crashed = spawn()
        with pytest.raises(McpConnectionError):
            crashed.call_tool("crash")
        crashed.close()
        with McpStdio("/no/such/program") as absent, pytest.raises(McpConnectionError):
            absent.connect()
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("yiemagent-mcp")]
    for thread in threading.enumerate():
        if thread.name in names:
            thread.join(5)
    assert open_files() - before == set()  # Those of earlier tests may be closed meanwhile.


def _script(body: str) -> subprocess.CompletedProcess[str]:
    program = f"""
import contextlib, os, sys, threading
from yiemagent.mcp.stdio import McpStdio
client = McpStdio(sys.executable, [{SERVER!r}, "ignore_eof=1"])
client.call_tool("echo")
print(client.pid, flush=True)
def use(name):
    with contextlib.suppress(Exception):
        client.call_tool(name)
{body}
"""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False
    )


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "threading.Thread(target=use, args=('silent',), daemon=True).start()",
        "sys.exit(0)",
        "client.close(0.1); client.close()",
    ],
)
def test_a_program_that_ends_takes_its_server_with_it(body: str, gone: Any) -> None:
    """Field problems 5, 9, 32, 33: no orphan, no hang, nothing on stderr."""
    done = _script(body)
    assert (done.returncode, done.stderr) == (0, "")
    gone(int(done.stdout))


def test_a_program_that_crashes_takes_its_server_with_it(gone: Any) -> None:
    """Field problem 9: an uncaught exception."""
    done = _script("raise RuntimeError('boom')")
    assert done.returncode == 1
    gone(int(done.stdout))


def test_a_server_learns_that_our_process_was_killed(gone: Any, tmp_path: pathlib.Path) -> None:
    """Field problem 9: the closed stdin tells it."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"""
import os, signal, sys
from yiemagent.mcp.stdio import McpStdio
client = McpStdio(sys.executable, [{SERVER!r}])
client.call_tool("echo")
print(client.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
""",
        ],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    gone(int(done.stdout))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_starts_a_server_of_its_own_and_leaves_ours_alone(spawn: Any) -> None:
    """Field problem 49: gunicorn --preload, Celery prefork."""
    client = spawn()
    client.call_tool("echo")
    ours = client.pid
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = client.call_tool("where").text
            client.close()
            os.write(write, text.encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        theirs = json.loads(answer.read())["pid"]
    os.waitpid(pid, 0)
    assert theirs != ours
    assert client.pid == ours
    assert _where(client)["pid"] == ours


def test_closing_does_not_wait_for_a_server_that_does_not_read(spawn: Any, gone: Any) -> None:
    """A full pipe must not hold anybody up."""
    client = spawn({"ignore_eof": 1})
    client.connect()
    pid = client.pid
    outcome = run_in_thread(client.call_tool, "stop_reading", {"seconds": 60})
    others = [run_in_thread(client.call_tool, "echo", {"x": "y" * 1_000_000}) for _ in range(3)]
    client.close(timeout=0.1)
    for waiting in (outcome, *others):
        with pytest.raises(McpConnectionError):
            waiting.get()
    gone(pid)


def test_what_the_server_says_on_stderr_can_be_read(spawn: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Field problems 11-13: drained through a pipe, whatever sys.stderr is; the tail is kept."""
    with caplog.at_level(logging.DEBUG, "yiemagent"):
        client = spawn({"stderr": "starting up"})
        client.call_tool("stderr_flood", {"lines": 10_000})
        assert client.stderr_tail.endswith("warning: something")
    assert len(client.stderr_tail) < 5_000
    assert "starting up" in caplog.text
