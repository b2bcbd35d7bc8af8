"""The ``calibration`` section of a problem file, as `hetopt calibrate` writes it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from hetopt.base.record import Fault
from hetopt.base.words import describe
from hetopt.problem.calibration import (
    BANDWIDTH_BOUNDS,
    EFFICIENCY_BOUNDS,
    RESERVE_BOUNDS,
)
from hetopt.problem.quantity import parse_memory
from hetopt.problem.schema.fields import (
    OptionalName,
    Strict,
    optional,
    or_none,
    read_fraction,
)


def _read_factor(value: Any, bounds: tuple[float, float], *path: str) -> float:
    low, high = bounds
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not low <= value <= high:
        msg = f"is {describe(value)}, expected a factor from {low:g} to {high:g}"
        raise Fault(msg, *path)
    return float(value)


def _read_bandwidth(value: Any) -> float:
    return _read_factor(value, BANDWIDTH_BOUNDS)


def _factor_schema(bounds: tuple[float, float]) -> dict[str, Any]:
    return {"type": "number", "minimum": bounds[0], "maximum": bounds[1]}


def _read_efficiency(value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        msg = f"is {describe(value)}, expected a mapping such as {{a100: 0.93}}"
        raise Fault(msg)
    return {
        cluster: _read_factor(factor, EFFICIENCY_BOUNDS, cluster)
        for cluster, factor in value.items()
    }


def _read_overhead(value: Any) -> dict[str, int]:
    if not isinstance(value, dict):
        msg = f"is {describe(value)}, expected a mapping such as {{a100: 2.1 GB}}"
        raise Fault(msg)
    sizes = {}
    for cluster, size in value.items():
        try:
            sizes[cluster] = parse_memory(size)
        except ValueError as error:
            raise Fault(str(error), cluster) from None
    return sizes


def _read_reserve(value: Any) -> float:
    low, high = RESERVE_BOUNDS
    fraction = read_fraction(value)
    if not low <= fraction <= high:
        msg = f"is {describe(value)}, expected a share from {low:g} to {high:g}"
        raise Fault(msg)
    return fraction


_BandwidthFactor = Annotated[
    float,
    BeforeValidator(_read_bandwidth),
    WithJsonSchema(_factor_schema(BANDWIDTH_BOUNDS)),
]


class CalibrationSpec(Strict):
    """Corrections from your own runs; `hetopt calibrate` writes them."""

    efficiency: Annotated[
        dict[str, float] | None,
        or_none(_read_efficiency),
        WithJsonSchema(
            {
                "type": "object",
                "additionalProperties": _factor_schema(EFFICIENCY_BOUNDS),
            }
        ),
    ] = optional(
        "By cluster: speed of its devices over that of its latency source; "
        "1 for clusters that are not named."
    )
    bandwidth: _BandwidthFactor = Field(
        1.0,
        description="Bandwidth of the networks between nodes and between clusters over "
        "that in this problem.",
    )
    intra_node: _BandwidthFactor = Field(
        1.0,
        description="Bandwidth of the links inside nodes, and of those of device "
        "groups, over that in this problem.",
    )
    overhead: Annotated[
        dict[str, int] | None,
        or_none(_read_overhead),
        WithJsonSchema(
            {
                "type": "object",
                "additionalProperties": {
                    "type": ["string", "number"],
                    "examples": ["2.1 GB"],
                },
            }
        ),
    ] = optional(
        "By cluster: what a device holds outside of what the framework "
        "allocates; takes the place of the cluster's own overhead."
    )
    reserve: Annotated[
        float | None,
        or_none(_read_reserve),
        WithJsonSchema({"type": ["number", "string"], "examples": [0.08, "8%"]}),
    ] = optional("Takes the place of training.reserve.")
    notes: OptionalName = optional("What it was calibrated on.")
