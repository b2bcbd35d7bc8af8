"""Fields of a device: peaks by precision, and what it holds beside the framework."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import WithJsonSchema
from pydantic_core import PydanticCustomError

from hetopt.problem.cluster import ARITHMETIC
from hetopt.problem.quantity import parse_flops
from hetopt.problem.schema.fields import (
    FLOPS_SCHEMA,
    field_error,
    or_none,
    positive,
    quantity_schema,
    read_memory,
)
from hetopt.words import suggest


def _read_peak_flops(value: Any) -> float | dict[str, float]:
    """Read one rate, or a rate for each of some precisions."""
    read = positive(parse_flops)
    if not isinstance(value, dict):
        rate: float = read(value)
        return rate
    expected = f"expected rates of {', '.join(ARITHMETIC)}"
    if not value:
        raise field_error(f"is an empty mapping, {expected}")
    rates = {}
    for name, rate in value.items():
        if name not in ARITHMETIC:
            hint = suggest(str(name), ARITHMETIC)
            raise field_error(f"is not a known precision{hint}, {expected}", str(name))
        try:
            rates[name] = read(rate)
        except (ValueError, PydanticCustomError) as error:
            context = getattr(error, "context", None) or {}
            raise field_error(context.get("message", str(error)), name) from None
    return rates


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
