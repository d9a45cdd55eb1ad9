"""A Flask app whose view asks an agent; served by a real gunicorn in the tests.

The agent is made at import, so with ``--preload`` it is older than the workers; ``USED`` has it
run once before they are forked.
"""

from __future__ import annotations

import os

from echo_model import EchoModel
from flask import Flask, current_app, request

from yiemagent import Agent


def whoami(name: str) -> str:
    """Say who asked, in which process, and which application is current."""
    return f"{name} in {os.getpid()} of {current_app.name} at {request.path}"


agent = Agent(EchoModel(), tools=[whoami])
app = Flask("cellar")

if os.environ.get("USED"):
    with app.test_request_context("/before"):
        agent.run("before the fork")


@app.get("/ask/<name>")
def ask(name: str) -> str:
    result = agent.run(name, timeout=20)
    return f"{os.getpid()}|{result.text}"


@app.get("/stream/<name>")
def stream(name: str) -> str:
    return "|".join(event.type for event in agent.stream(name))
