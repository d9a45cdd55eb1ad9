"""A real Celery worker with the prefork pool, over a broker in a folder."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.servers

HERE = pathlib.Path(__file__).parent
CLIENT = """
from celery_app import ask
for name in ("anna", "ben", "cleo"):
    print(ask.delay(name).get(timeout=40))
"""


def test_an_agent_made_before_the_prefork_answers_in_the_worker(tmp_path: pathlib.Path) -> None:
    """D-09: celery imports the module, then forks its pool."""
    for folder in ("queue", "results", "control"):
        (tmp_path / folder).mkdir()
    env = {
        **os.environ,
        "CELERY_FOLDER": str(tmp_path),
        "PYTHONPATH": str(HERE),
        "USED": "1",
        "C_FORCE_ROOT": "1",
    }
    command = [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--pool", "prefork", "-c", "2"]
    with (tmp_path / "worker.log").open("w") as log:
        worker = subprocess.Popen(
            [*command, "--without-gossip", "--without-mingle", "--without-heartbeat"],
            cwd=tmp_path,
            env=env,
            stdout=log,
            stderr=log,
        )
        try:
            client_env = {key: value for key, value in env.items() if key != "USED"}
            client = subprocess.run(
                [sys.executable, "-c", CLIENT], env=client_env, capture_output=True, text=True, timeout=90
            )
        finally:
            worker.terminate()
            code = worker.wait(30)

    assert client.returncode == 0, client.stderr + (tmp_path / "worker.log").read_text()
    for line, name in zip(client.stdout.splitlines(), ("anna", "ben", "cleo"), strict=True):
        process, text = line.split("|")
        assert text == f"{name} in {process}"
        assert process != str(worker.pid)
    assert code == 0
