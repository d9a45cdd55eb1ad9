"""The official SDK's client against our server half, over stdio and HTTP, in both eras."""

from __future__ import annotations

import json
import pathlib
import subprocess
from typing import Any

import pytest

from yiemagent.mcp.serve_http_runner import HttpServing

pytestmark = pytest.mark.servers

CLIENT = pathlib.Path(__file__).parent / "sdk_client.py"


def ask(sdk_python: str, mode: str, target: Any) -> Any:
    done = subprocess.run(
        [sdk_python, str(CLIENT), mode, json.dumps(target)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("SAID ")]
    assert said, done.stderr
    return json.loads(said[0][5:])


@pytest.mark.parametrize("wire", ["stdio", "http"])
@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_other_peoples_clients_get_everything(
    sdk_python: str, stdio_command: list[str], http: HttpServing, wire: str, mode: str, version: str
) -> None:
    """Issue 5 part 5: our two halves and other people's clients."""
    said = ask(sdk_python, mode, stdio_command if wire == "stdio" else http.url)

    assert said == {
        "version": version,
        "server": "served",
        "instructions": "Be kind.",
        "tools": ["add", "boom", "noisy", "count", "sleep", "mixed", "forecast"],
        "add": [{"type": "text", "text": "3"}],
        "forecast": {"degrees": 21.5},
        "boom": True,
        "kinds": ["text", "image", "audio", "resource_link"],
        "progress": [[1.0, 2.0, "step 1"], [2.0, 2.0, "step 2"]],
        "unknown": -32602,
        "resources": ["memo://today", "memo://pixel"],
        "templates": ["memo://day/{day}"],
        "read": "what was on 1",
        "prompt": "Tell me about oak in a plain tone.",
    }
