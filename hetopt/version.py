"""The version of hetopt, which everything that is kept or written names."""

from __future__ import annotations

__version__ = "0.2.0"
