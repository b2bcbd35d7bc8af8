"""Factors from an engineer's own runs that correct the latency table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from hetopt.base.checked import checked

#: Ranges of corrections. A factor outside means that something else is wrong.
EFFICIENCY_BOUNDS = (0.25, 2.0)
BANDWIDTH_BOUNDS = (0.1, 2.0)
RESERVE_BOUNDS = (0.01, 0.5)


def most_overhead(memory_bytes: int) -> int:
    """Return the largest overhead of a device, which leaves one byte of memory."""
    return memory_bytes - 1


def _check(name: str, factor: float, bounds: tuple[float, float]) -> None:
    low, high = bounds
    if not low <= factor <= high:
        msg = f"{name} is {factor}, expected {low:g} to {high:g}"
        raise ValueError(msg)


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Factors by which the latency table of a problem is corrected.

    Corrections of overheads and of the reserve replace ``Cluster.overhead_bytes`` and
    ``Training.reserve``; ``overheads`` and ``reserve`` record which were replaced.

    Attributes
    ----------
    efficiency
        Cluster name -> speed of its devices over that of their latency source; 1 for a
        missing name.
    speed
        Cluster name -> factor by which its devices are supposed to be quicker yet, any
        above 0; 1 for a missing name. No correction, so files cannot give it.
    bandwidth
        Bandwidth of the networks between nodes and between clusters over that of the
        problem.
    intra_node
        Bandwidth of the links inside nodes, and of device groups, over that of the
        problem.
    overheads
        Names of the clusters whose overhead is the calibration's.
    reserve
        The calibration's reserve; None if the training's own is kept.
    """

    efficiency: Mapping[str, float] = field(default_factory=dict)
    speed: Mapping[str, float] = field(default_factory=dict)
    bandwidth: float = 1.0
    intra_node: float = 1.0
    overheads: frozenset[str] = field(default=frozenset(), compare=False)
    reserve: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name, factor in self.efficiency.items():
            _check(f"efficiency of {name}", factor, EFFICIENCY_BOUNDS)
        for name, factor in self.speed.items():
            if not 0 < factor < math.inf:
                msg = f"speed of {name} is {factor}, expected a factor above 0"
                raise ValueError(msg)
        _check("bandwidth", self.bandwidth, BANDWIDTH_BOUNDS)
        _check("intra_node", self.intra_node, BANDWIDTH_BOUNDS)

    def efficiency_of(self, cluster: str) -> float:
        """Return the factor of one cluster."""
        return self.efficiency.get(cluster, 1.0) * self.speed.get(cluster, 1.0)


NO_CALIBRATION = Calibration()
