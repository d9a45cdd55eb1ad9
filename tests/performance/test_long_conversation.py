"""A long conversation whose history is compacted does not grow."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.servers

ROOT = pathlib.Path(__file__).parents[2]
ROOM_KIB = 260
"""More than the messages between two compactions hold; without compaction 600 turns would add 500."""


def test_memory_is_flat_however_long_the_conversation() -> None:
    """Issue 7: the 24-hour conversation, short; ``python -m benchmarks.long_run`` is the long one."""
    command = [sys.executable, "-m", "benchmarks.long_run", "--turns", "1200", "--json"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    samples = [sample for sample in json.loads(said.stdout) if sample["turns"] >= 500]

    objects = [sample["objects_kib"] for sample in samples]
    assert max(objects) - min(objects) <= ROOM_KIB
    assert {sample["threads"] for sample in samples} == {3}  # This one, the agent's, its tools'.
