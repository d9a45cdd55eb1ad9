"""A Celery application with a task that runs a module-level agent in prefork workers."""

from __future__ import annotations

import os

from celery import Celery
from echo_model import EchoModel

from yiemagent import Agent

FOLDER = os.environ["CELERY_FOLDER"]
app = Celery(
    "cellar",
    broker="filesystem://",
    backend=f"file://{FOLDER}/results",
    broker_transport_options={
        "data_folder_in": f"{FOLDER}/queue",
        "data_folder_out": f"{FOLDER}/queue",
        "control_folder": f"{FOLDER}/control",
    },
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)


def whoami(name: str) -> str:
    """Say who asked and in which process."""
    return f"{name} in {os.getpid()}"


agent = Agent(EchoModel(), tools=[whoami])
if os.environ.get("USED"):
    agent.run("before the fork")


@app.task
def ask(name: str) -> str:
    """Run the agent in the worker process."""
    return f"{os.getpid()}|{agent.run(name, timeout=20).text}"
