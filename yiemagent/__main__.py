"""``python -m yiemagent``: the demonstration's command line."""

from __future__ import annotations

import sys

from yiemagent.demo.cli import main

if __name__ == "__main__":
    sys.exit(main())
