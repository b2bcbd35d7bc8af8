"""Argument types that are numbers."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def whole(least: int) -> Callable[[str], int]:
    """Return an argument type: a whole number of at least ``least``."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or value < least:
            msg = f"{text!r} is not a whole number of at least {least}"
            raise argparse.ArgumentTypeError(msg)
        return value

    return convert


def chunk_counts(text: str) -> tuple[int, ...]:
    """Argument type: different whole numbers of at least 1, with commas between."""
    found = tuple(map(whole(1), text.split(",")))
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r} has a number twice")
    return found


def seconds(text: str) -> float:
    """Argument type: a positive, finite number of seconds."""
    return _positive(text, "a number of seconds")


def amount(text: str) -> float:
    """Argument type: a positive, finite number."""
    return _positive(text, "a number")


def _positive(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not {what} above 0")
    return value


def not_negative(text: str) -> float:
    """Argument type: a finite number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        msg = f"{text!r} is not a number of at least 0"
        raise argparse.ArgumentTypeError(msg)
    return value
