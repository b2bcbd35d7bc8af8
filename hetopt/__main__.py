"""``python -m hetopt``."""

from __future__ import annotations

import sys

from hetopt.cli import process

if __name__ == "__main__":
    sys.exit(process())
