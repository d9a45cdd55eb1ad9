"""A Flask view that calls ``agent.run``, under real gunicorn workers."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import requests

pytestmark = pytest.mark.servers

WORKERS = {
    "sync": ("--worker-class", "sync", "--workers", "2"),
    "gthread": ("--worker-class", "gthread", "--workers", "2", "--threads", "4"),
    "gevent": ("--worker-class", "gevent", "--workers", "2"),
}


def get(url: str) -> str:
    response = requests.get(url, timeout=30)
    assert response.status_code == 200, response.text
    return response.text


@pytest.mark.parametrize("worker", WORKERS)
def test_a_view_that_runs_an_agent_answers(gunicorn: Callable[..., object], worker: str) -> None:
    """Part 4: sync, gthread and gevent workers; Flask's context reaches the tool (D-14, D-33)."""
    server = gunicorn(*WORKERS[worker])

    process, text = get(f"{server.url}/ask/anna").split("|")

    assert text == f"anna in {process} of cellar at /ask/anna"


@pytest.mark.parametrize("worker", WORKERS)
def test_an_agent_made_before_the_fork_works_in_every_worker(
    gunicorn: Callable[..., object], worker: str
) -> None:
    """D-09: with --preload the agent, and the thread of a run it made, belong to the parent."""
    server = gunicorn("--preload", *WORKERS[worker], env={"USED": "1"})

    answers = [get(f"{server.url}/ask/n{number}").split("|") for number in range(6)]

    for number, (process, text) in enumerate(answers):
        assert text == f"n{number} in {process} of cellar at /ask/n{number}"
        assert process != str(server.process.pid)


@pytest.mark.parametrize("worker", ["gthread", "gevent"])
def test_requests_at_the_same_time_each_get_their_own_answer(
    gunicorn: Callable[..., object], worker: str
) -> None:
    """X8, D-06: eight requests share one agent in one process."""
    arguments = list(WORKERS[worker])
    arguments[arguments.index("--workers") + 1] = "1"
    server = gunicorn(*arguments)
    answers: dict[str, str] = {}

    def ask(name: str) -> None:
        answers[name] = get(f"{server.url}/ask/{name}")

    threads = [threading.Thread(target=ask, args=(f"n{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert len(answers) == 8
    assert all(text.split("|")[1].startswith(f"{name} in ") for name, text in answers.items())


def test_a_view_may_iterate_the_events_of_a_run(gunicorn: Callable[..., object]) -> None:
    """The blocking iterator lives in the request's own thread, under gevent too."""
    server = gunicorn(*WORKERS["gevent"])

    types = get(f"{server.url}/stream/anna").split("|")

    assert types[0] == "agent_start"
    assert types[-1] == "agent_end"


@pytest.mark.parametrize("worker", WORKERS)
def test_a_worker_with_a_used_agent_ends_in_order(gunicorn: Callable[..., object], worker: str) -> None:
    """D-37: daemon threads never keep a worker from ending, and nothing is printed."""
    arguments = list(WORKERS[worker])
    arguments[arguments.index("--workers") + 1] = "1"
    server = gunicorn(*arguments)
    get(f"{server.url}/ask/anna")

    assert server.stop() == 0

    assert not [line for line in server.log if "Traceback" in line or "Fatal" in line]
