"""``make stress``: property tests with more examples, then the tests of threads for two minutes under load.

Usage: ``python tests/stress.py [SECONDS]``. The tests of threads are repeated with every core busy;
each pass takes new random moments. The first one that fails ends it, and its traceback names the seed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from time import monotonic

SECONDS = 120.0
BURN = "while True: pass"


def main(seconds: float) -> int:
    """Run both; the exit code of the first pass that failed, else 0."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "--timeout=600", "tests", "-m"]
    print("property tests", flush=True)
    code = subprocess.call([*pytest, "hypothesis"], env={**os.environ, "YIEMAGENT_STRESS": "1"})
    if code:
        return code
    environment = {**os.environ, "YIEMAGENT_STRESS": os.environ.get("YIEMAGENT_STRESS", "2")}
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range((os.cpu_count() or 1) * 2)]
    deadline, passes = monotonic() + seconds, 0
    try:
        while monotonic() < deadline:
            passes += 1
            print(f"pass {passes}", flush=True)
            code = subprocess.call([*pytest, "threads"], env=environment)
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
