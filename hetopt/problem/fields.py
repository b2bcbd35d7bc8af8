"""Types of a problem's fields: quantities with units, shares, values of decisions."""

from __future__ import annotations

import fractions
from collections.abc import Callable
from numbers import Integral, Real
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema

from hetopt.base.faults import Fault, inside
from hetopt.base.words import describe
from hetopt.problem.quantity import (
    FLOPS,
    TOO_MANY_BYTES,
    parse_bandwidth,
    parse_flops,
    parse_memory,
    parse_quantity,
    parse_time,
)

AUTO = "auto"


def memory_size(value: Any) -> int:
    """Read a memory size of less than 1 PB."""
    size_bytes = parse_memory(value)
    if size_bytes >= TOO_MANY_BYTES:
        raise Fault(f"is {describe(value)}, expected less than 1 PB")
    return size_bytes


def _quantity(parse: Callable[[Any], Any], kind: type, above: float) -> BeforeValidator:
    """Return a reader of quantities more than ``above``.

    Files give them with a unit, programs as numbers in base units.
    """

    def read(value: Any, info: ValidationInfo) -> Any:
        found = value
        if info.context is not None:
            found = parse(value)
        elif not isinstance(value, kind) or isinstance(value, bool):
            raise Fault(f"is {describe(value)}, expected a number")
        if not found > above:
            wanted = "0 or more" if above < 0 else "more than 0"
            raise Fault(f"is {describe(value)}, expected {wanted}")
        return int(found) if kind is Integral else float(found)

    return BeforeValidator(read)


def flops(value: Any, field: str) -> fractions.Fraction:
    """Read the rate that a field of a file gives."""
    with inside(field):
        rate = parse_quantity(value, FLOPS)
        if not rate:
            raise Fault(f"is {describe(value)}, expected more than 0")
    return rate


def with_unit(*examples: str) -> WithJsonSchema:
    """Return the JSON Schema of a quantity."""
    return WithJsonSchema({"type": ["string", "number"], "examples": list(examples)})


_RATES = with_unit("100 Gbps", "12.5 GB/s")
FLOPS_SCHEMA = {"type": ["string", "number"], "examples": ["312 TFLOPS"]}
_ANY = Field(allow_inf_nan=True)

Memory = Annotated[
    int, _quantity(memory_size, Integral, 0), with_unit("80 GB", "80 GiB")
]
Overhead = Annotated[
    int, _quantity(memory_size, Integral, -1), with_unit("1.5 GiB", "2 GB")
]
Bandwidth = Annotated[float, _ANY, _quantity(parse_bandwidth, Real, 0), _RATES]
Latency = Annotated[
    float, _ANY, _quantity(parse_time, Real, -1e-300), with_unit("5 us", "1 ms")
]
Flops = Annotated[float, _quantity(parse_flops, Real, 0), WithJsonSchema(FLOPS_SCHEMA)]


def fraction(value: Any) -> float:
    """Read 0.06 or "6%"."""
    number: float | None = None
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            number = float(value.strip()[:-1]) / 100
        except ValueError:
            number = None
    elif isinstance(value, int | float) and not isinstance(value, bool):
        # Compared before it is converted: a whole number may be too large for a float.
        number = float(value) if 0 <= value < 1 else None
    if number is None or not 0 <= number < 1:
        such = "a fraction such as 0.06 or '6%', at least 0 and less than 1"
        raise Fault(f"is {describe(value)}, expected {such}")
    return number


Fraction = Annotated[
    float,
    BeforeValidator(fraction),
    WithJsonSchema({"type": ["number", "string"], "examples": [0.06, "6%"]}),
]
