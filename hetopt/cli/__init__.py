"""The command line: one thin door per command."""

from __future__ import annotations

from hetopt.cli.entry import main

__all__ = ["main"]
