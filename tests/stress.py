"""``make stress``: the tests of threads, again and again for two minutes, with every core busy.

Usage: ``python tests/stress.py [SECONDS]``. Each pass takes new random moments; the first one that
fails ends it, and its traceback names the seed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from time import monotonic

SECONDS = 120.0
BURN = "while True: pass"


def main(seconds: float) -> int:
    """Repeat the marked tests under load; the exit code of the first pass that failed, else 0."""
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range((os.cpu_count() or 1) * 2)]
    environment = {**os.environ, "YIEMAGENT_STRESS": os.environ.get("YIEMAGENT_STRESS", "2")}
    command = [sys.executable, "-m", "pytest", "-m", "threads", "-q", "-x", "--timeout=600", "tests"]
    deadline, passes = monotonic() + seconds, 0
    try:
        while monotonic() < deadline:
            passes += 1
            print(f"pass {passes}", flush=True)
            code = subprocess.call(command, env=environment)
            if code:
                return code
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    print(f"{passes} passes in {seconds:g} s or a little more, no failure")
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS))
