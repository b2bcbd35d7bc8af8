"""Factors from an engineer's own runs that correct the latency table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, field
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Le
from pydantic import BeforeValidator, Field

from hetopt.base.fields import Expected, Name, Positive, Read, number
from hetopt.base.record import INTERNAL, record
from hetopt.problem.fields import Fraction, Overhead

#: Ranges of corrections. A factor outside means that something else is wrong.
EFFICIENCY_BOUNDS = (0.25, 2.0)
BANDWIDTH_BOUNDS = (0.1, 2.0)
RESERVE_BOUNDS = (0.01, 0.5)


def most_overhead(memory_bytes: int) -> int:
    """Return the largest overhead of a device, which leaves one byte of memory."""
    return memory_bytes - 1


def _or_nothing(value: Any) -> Any:
    return {} if value is None else value


_Efficiency = Annotated[
    float,
    Ge(EFFICIENCY_BOUNDS[0]),
    Le(EFFICIENCY_BOUNDS[1]),
    Read(number),
    Expected("a factor from {:g} to {:g}".format(*EFFICIENCY_BOUNDS)),
]
_Bandwidth = Annotated[
    float,
    Ge(BANDWIDTH_BOUNDS[0]),
    Le(BANDWIDTH_BOUNDS[1]),
    Read(number),
    Expected("a factor from {:g} to {:g}".format(*BANDWIDTH_BOUNDS)),
]
_Reserve = Annotated[
    Fraction,
    Ge(RESERVE_BOUNDS[0]),
    Le(RESERVE_BOUNDS[1]),
    Expected("a share from {:g} to {:g}".format(*RESERVE_BOUNDS)),
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

    efficiency: Annotated[Mapping[str, _Efficiency], BeforeValidator(_or_nothing)] = (
        field(default_factory=dict)
    )
    speed: Annotated[Mapping[str, Positive], INTERNAL] = field(default_factory=dict)
    bandwidth: _Bandwidth = 1.0
    intra_node: _Bandwidth = 1.0
    overheads: Annotated[
        Mapping[str, Overhead], Field(alias="overhead"), BeforeValidator(_or_nothing)
    ] = field(default_factory=dict, compare=False)
    reserve: _Reserve | None = field(default=None, compare=False)
    notes: InitVar[Name | None] = None

    def efficiency_of(self, cluster: str) -> float:
        """Return the factor of one cluster."""
        return self.efficiency.get(cluster, 1.0) * self.speed.get(cluster, 1.0)


NO_CALIBRATION = Calibration()
