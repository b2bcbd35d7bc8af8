"""Argument types that are numbers."""

from __future__ import annotations

import argparse
import math
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return an argument type: a whole number of at least ``least``."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or value < least:
            msg = f"{text!r} is not a whole number of at least {least}"
            raise argparse.ArgumentTypeError(msg)
        if most is not None and value > most:
            raise argparse.ArgumentTypeError(f"{text[:20]!r} is more than {most:,}")
        return value

    return convert


def chunk_counts(text: str) -> tuple[int, ...]:
    """Argument type: different whole numbers of at least 1, with commas between."""
    found = tuple(map(whole(1), text.split(",")))
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r} has a number twice")
    return found


def amount(text: str, what: str = "a number", *, zero: bool = False) -> float:
    """Argument type: a positive, finite number; ``zero`` is one, too, if said so."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and (value > 0 or (zero and value == 0))):
        limit = "of at least 0" if zero else "above 0"
        raise argparse.ArgumentTypeError(f"{text!r} is not {what} {limit}")
    return value


seconds = partial(amount, what="a number of seconds")
not_negative = partial(amount, zero=True)


def quantity(
    parse: Callable[[str], float], least: tuple[float, str] | None = None
) -> Callable[[str], float]:
    """Return an argument type: a number above 0, with a unit.

    Parameters
    ----------
    least
        The least that it may be, and what to say of less.
    """

    def convert(text: str) -> float:
        try:
            value = parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if least is not None and value < least[0]:
            raise argparse.ArgumentTypeError(f"is {text!r}, {least[1]}")
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
        return value

    return convert
