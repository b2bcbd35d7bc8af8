"""``python -m hetopt``."""

from __future__ import annotations

import sys

from hetopt.cli import main

if __name__ == "__main__":
    sys.exit(main())
