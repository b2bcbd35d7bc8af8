"""Fields of devices and nodes: peak rates, memory overhead, price."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import WithJsonSchema

from hetopt.base.record import Fault
from hetopt.base.words import describe, suggest
from hetopt.problem.cluster.accelerator import ARITHMETIC
from hetopt.problem.quantity import parse_flops
from hetopt.problem.schema.fields import (
    FLOPS_SCHEMA,
    or_none,
    positive,
    quantity_schema,
    read_memory,
)

#: Highest price of a node per hour, in any currency: sums and products stay finite.
MAX_PRICE = 1e9


def _read_peak_flops(value: Any) -> float | dict[str, float]:
    """Read one rate, or a mapping from precisions to rates."""
    read = positive(parse_flops)
    if not isinstance(value, dict):
        rate: float = read(value)
        return rate
    expected = f"expected rates of {', '.join(ARITHMETIC)}"
    if not value:
        raise Fault(f"is an empty mapping, {expected}")
    rates = {}
    for name, rate in value.items():
        if name not in ARITHMETIC:
            hint = suggest(str(name), ARITHMETIC)
            raise Fault(f"is not a known precision{hint}, {expected}", str(name))
        try:
            rates[name] = read(rate)
        except ValueError as error:
            raise Fault(str(error), name) from None
    return rates


def _read_price(value: Any) -> float:
    """Read a price: a number without a unit, as there is no currency."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= MAX_PRICE:
        msg = f"is {describe(value)}, expected a number from 0 to {MAX_PRICE:g}"
        raise Fault(f"{msg}, without a currency")
    return float(value)


OptionalOverhead = Annotated[
    int | None, or_none(read_memory), quantity_schema("1.5 GiB", "2 GB")
]
OptionalPeakFlops = Annotated[
    float | dict[str, float] | None,
    or_none(_read_peak_flops),
    WithJsonSchema(
        {
            "anyOf": [
                FLOPS_SCHEMA,
                {
                    "type": "object",
                    "properties": dict.fromkeys(ARITHMETIC, FLOPS_SCHEMA),
                    "additionalProperties": False,
                    "minProperties": 1,
                },
            ]
        }
    ),
]
OptionalPrice = Annotated[
    float | None,
    or_none(_read_price),
    WithJsonSchema(
        {"type": "number", "minimum": 0, "maximum": MAX_PRICE, "examples": [32.77]}
    ),
]
