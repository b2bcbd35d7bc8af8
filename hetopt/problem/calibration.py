"""Factors from an engineer's own runs that correct the latency table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import InitVar, field
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
)

from hetopt.base.faults import Fault
from hetopt.base.fields import Name, by_key
from hetopt.base.record import INTERNAL, record
from hetopt.problem.fields import Fraction, between, memory_size

#: Ranges of corrections. A factor outside means that something else is wrong.
EFFICIENCY_BOUNDS = (0.25, 2.0)
BANDWIDTH_BOUNDS = (0.1, 2.0)
RESERVE_BOUNDS = (0.01, 0.5)


def most_overhead(memory_bytes: int) -> int:
    """Return the largest overhead of a device, which leaves one byte of memory."""
    return memory_bytes - 1


def _factor(bounds: tuple[float, float]) -> Callable[[Any], float]:
    return between(*bounds, f"a factor from {bounds[0]:g} to {bounds[1]:g}")


def _schema(bounds: tuple[float, float]) -> dict[str, Any]:
    return {"type": "number", "minimum": bounds[0], "maximum": bounds[1]}


def _sizes(value: Any, info: ValidationInfo) -> Any:
    if info.context is None:
        return value
    sizes = {} if value is None else value
    return by_key(memory_size, sizes, "such as {a100: 2.1 GB}")


def _efficiency(value: Any) -> dict[str, float]:
    factors = {} if value is None else value
    return by_key(_factor(EFFICIENCY_BOUNDS), factors, "such as {a100: 0.93}")


def _reserve(share: float | None) -> float | None:
    low, high = RESERVE_BOUNDS
    if share is not None and not low <= share <= high:
        msg = f"is {share:g}, expected a share from {low:g} to {high:g}"
        raise Fault(msg)
    return share


_Bandwidth = Annotated[
    float,
    BeforeValidator(_factor(BANDWIDTH_BOUNDS)),
    WithJsonSchema(_schema(BANDWIDTH_BOUNDS)),
]


@record
class Calibration:
    """Corrections from your own runs; `hetopt calibrate` writes them.

    They correct the latency table of a problem. Those of overheads and of the reserve
    replace ``Cluster.overhead_bytes`` and ``Training.reserve``.

    Attributes
    ----------
    efficiency
        By cluster: speed of its devices over that of its latency source; 1 for
        clusters that are not named.
    speed
        Cluster name -> factor by which its devices are supposed to be quicker yet,
        any above 0; 1 for a missing name. No correction, so files cannot give it.
    bandwidth
        Bandwidth of the networks between nodes and between clusters over that in
        this problem.
    intra_node
        Bandwidth of the links inside nodes, and of those of device groups, over
        that in this problem.
    overheads
        By cluster: what a device holds outside of what the framework allocates;
        takes the place of the cluster's own overhead.
    reserve
        Takes the place of training.reserve.
    notes
        What it was calibrated on.
    """

    empty_is_wrong: ClassVar = True

    efficiency: Annotated[
        Mapping[str, float],
        BeforeValidator(_efficiency),
        WithJsonSchema(
            {"type": "object", "additionalProperties": _schema(EFFICIENCY_BOUNDS)}
        ),
    ] = field(default_factory=dict)
    speed: Annotated[Mapping[str, float], INTERNAL] = field(default_factory=dict)
    bandwidth: _Bandwidth = 1.0
    intra_node: _Bandwidth = 1.0
    overheads: Annotated[
        Mapping[str, int],
        Field(alias="overhead"),
        BeforeValidator(_sizes),
        WithJsonSchema(
            {
                "type": "object",
                "additionalProperties": {
                    "type": ["string", "number"],
                    "examples": ["2.1 GB"],
                },
            }
        ),
    ] = field(default_factory=dict, compare=False)
    reserve: Annotated[Fraction | None, AfterValidator(_reserve)] = field(
        default=None, compare=False
    )
    notes: InitVar[Name | None] = None

    def __post_init__(self, _notes: str | None) -> None:
        for name, factor in self.speed.items():
            if not 0 < factor < math.inf:
                msg = f"is {factor}, expected a factor above 0"
                raise Fault(msg, "speed", name)

    def efficiency_of(self, cluster: str) -> float:
        """Return the factor of one cluster."""
        return self.efficiency.get(cluster, 1.0) * self.speed.get(cluster, 1.0)


NO_CALIBRATION = Calibration()
