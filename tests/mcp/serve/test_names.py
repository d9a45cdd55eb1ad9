"""The public names of ``yiemagent.mcp``, whatever was imported before."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.servers


@pytest.mark.parametrize("name", ["serve_http", "serve_stdio", "serve_nats"])
@pytest.mark.parametrize("first", ["import yiemagent.mcp.{}", "from yiemagent.mcp.{0} import {0}", "pass"])
def test_a_function_is_not_hidden_by_the_module_it_is_in(name: str, first: str) -> None:
    """An import elsewhere of the module of the same name changes nothing."""
    code = f"{first.format(name)}; from yiemagent.mcp import {name}; print(type({name}).__name__)"

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60
    )

    assert (done.stdout, done.stderr) == ("function\n", "")
