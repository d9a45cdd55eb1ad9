"""The official MCP conformance harness against the client program: every required scenario."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = [pytest.mark.servers, pytest.mark.timeout(1800)]


@pytest.fixture(scope="session")
def runner() -> ModuleType:
    """The module that ``make conformance`` runs."""
    path = Path(__file__).with_name("harness.py")
    spec = importlib.util.spec_from_file_location("conformance_harness", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def harness(runner: Any) -> Any:
    """The installed harness, or a skip that says why there is none."""
    try:
        return runner.install()
    except runner.Unavailable as exc:
        pytest.skip(str(exc))


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_every_required_scenario_passes(runner: Any, harness: Any, version: str) -> None:
    """Issue 5, Shown by: 18 of 18 for 2025-11-25, 32 of 32 for 2026-07-28."""
    required = harness.required(version)

    done = harness.run("--requirements", version)

    output = done.stdout + done.stderr
    passed = set(re.findall(r"✓ (\S+):", output))
    assert [name for name in required if name not in passed] == [], output
    assert (len(required), done.returncode) == (runner.REQUIRED[version], 0), output


@pytest.mark.parametrize(
    "name",
    [
        "auth/2025-03-26-oauth-metadata-backcompat",
        "auth/2025-03-26-oauth-endpoint-fallback",
        "auth/client-credentials-basic",
        "auth/client-credentials-jwt",
        "auth/enterprise-managed-authorization",
        "auth/wif-jwt-bearer",
        "auth/dpop",
        "auth/dpop-nonce",
    ],
)
def test_scenarios_outside_the_required_sets_pass_alone(runner: Any, harness: Any, name: str) -> None:
    """Issue 5, Shown by: both back-compat scenarios and the extensions; here the exit code counts too."""
    if name.endswith(("jwt", "dpop", "dpop-nonce")):
        pytest.importorskip("cryptography")
    version = runner.EXTRA[name]

    done = harness.run("--scenario", name, *([] if version is None else ["--spec-version", version]))

    assert done.returncode == 0, done.stdout + done.stderr
