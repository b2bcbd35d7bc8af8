"""Quantities with units, as people write them, in SI base units.

Prefixes are decimal (1 GB = 1e9 bytes) unless written ``Ki``, ``Mi``, ``Gi``, ``Ti``.
A small b means bits and a capital B bytes.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from hetopt.base.words import describe

_NUMBER = re.compile(
    r"\s*(?P<number>[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?)"
    r"\s*(?P<unit>\S.*?)?\s*"
)
#: Longer numbers are typing errors, and exact arithmetic on them is slow.
_MAX_TEXT = 60

#: No device has so much memory, in bytes.
TOO_MANY_BYTES = 10**15

_DECIMAL = {
    "": 1,
    "k": 10**3,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """A physical dimension.

    Attributes
    ----------
    name
        Its name in messages, with an article.
    examples
        How to write it, for messages.
    units
        Unit as written -> factor to the base unit.
    """

    name: str
    examples: str
    units: dict[str, Fraction]


def _prefixed(
    suffixes: tuple[str, ...], scale: Fraction, *, binary: bool
) -> dict[str, Fraction]:
    prefixes = {**_DECIMAL, **_BINARY} if binary else _DECIMAL
    return {
        prefix + suffix: factor * scale
        for suffix in suffixes
        for prefix, factor in prefixes.items()
    }


BANDWIDTH = Dimension(
    name="a bandwidth",
    examples="'100 Gbps' or '12.5 GB/s'",
    units={
        **_prefixed(("bps", "bit/s", "b/s"), Fraction(1, 8), binary=False),
        **_prefixed(("B/s", "Bps"), Fraction(1), binary=True),
    },
)
MEMORY = Dimension(
    name="a memory size",
    examples="'80 GB' or '80 GiB'",
    units=_prefixed(("B",), Fraction(1), binary=True),
)
TIME = Dimension(
    name="a time",
    examples="'5 us' or '1 ms'",
    units={
        "s": Fraction(1),
        "ms": Fraction(1, 10**3),
        "us": Fraction(1, 10**6),
        "\u00b5s": Fraction(1, 10**6),
        "\u03bcs": Fraction(1, 10**6),
        "ns": Fraction(1, 10**9),
    },
)
FLOPS = Dimension(
    name="a compute rate",
    examples="'312 TFLOPS' or '312 TFLOP/s'",
    units=_prefixed(
        ("FLOPS", "FLOP/s", "FLOPs", "flops", "flop/s"), Fraction(1), binary=False
    ),
)
DIMENSIONS = (BANDWIDTH, MEMORY, TIME, FLOPS)


def parse_quantity(value: object, dimension: Dimension) -> Fraction:
    """Return a quantity in base units (bytes, seconds, bytes/s, FLOP/s).

    Parameters
    ----------
    value
        A text with number and unit, or the number 0; a Fraction is in base units.
    dimension
        The dimension that it must have.

    Raises
    ------
    ValueError
        It is not a finite quantity of this dimension, 0 or more.
    """
    if isinstance(value, Fraction):
        return value
    expected = f"expected {dimension.name} such as {dimension.examples}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value == 0:
            return Fraction(0)
        msg = f"is {value} without a unit, {expected}"
        raise ValueError(msg)
    if not isinstance(value, str):
        raise ValueError(f"is {describe(value)}, {expected}")
    match = _NUMBER.fullmatch(value) if len(value) <= _MAX_TEXT else None
    if match is None:
        raise ValueError(f"is {_short(value)}, {expected}")
    number, unit = match["number"], match["unit"]
    if unit is None:
        if float(number) == 0:
            return Fraction(0)
        msg = f"is {_short(value)} without a unit, {expected}"
        raise ValueError(msg)
    factor = dimension.units.get(unit)
    if factor is None:
        raise ValueError(_wrong_unit(value, unit, dimension, expected))
    result = Fraction(number) * factor
    if result < 0:
        msg = f"is {_short(value)}, expected 0 or more"
        raise ValueError(msg)
    if result > Fraction(10) ** 30 or 0 < result < Fraction(1, 10**30):
        msg = f"is {_short(value)}, which no machine has; {expected}"
        raise ValueError(msg)
    return result


def _wrong_unit(value: str, unit: str, dimension: Dimension, expected: str) -> str:
    for other in DIMENSIONS:
        if other is not dimension and unit in other.units:
            return f"is {_short(value)}, which is {other.name}, {expected}"
    near = [known for known in dimension.units if known.lower() == unit.lower()]
    hint = f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
    return f"is {_short(value)} with the unknown unit {unit!r}{hint}, {expected}"


def parse_bandwidth(value: object) -> float:
    """Return bytes per second."""
    return float(parse_quantity(value, BANDWIDTH))


def parse_memory(value: object) -> int:
    """Return whole bytes, rounded down."""
    return math.floor(parse_quantity(value, MEMORY))


def parse_time(value: object) -> float:
    """Return seconds."""
    return float(parse_quantity(value, TIME))


def parse_flops(value: object) -> float:
    """Return floating-point operations per second."""
    return float(parse_quantity(value, FLOPS))


def tflops(flops_per_s: float) -> str:
    """Return a rate with its unit, rounded up: a peak must not be exceeded."""
    return f"{math.ceil(flops_per_s / 1e9) / 1e3:.10g} TFLOPS"


def _short(value: str) -> str:
    return repr(value if len(value) <= _MAX_TEXT else value[:_MAX_TEXT] + "...")
