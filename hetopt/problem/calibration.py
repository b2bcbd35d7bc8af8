"""How far an engineer's own runs were from the table: factors that correct it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What a run may correct. A factor outside says that something else is wrong.
EFFICIENCY_BOUNDS = (0.25, 2.0)
BANDWIDTH_BOUNDS = (0.1, 2.0)
RESERVE_BOUNDS = (0.01, 0.5)


def most_overhead(memory_bytes: int) -> int:
    """Return the largest overhead of a device: it leaves some of the memory."""
    return memory_bytes - 1


def _check(name: str, factor: float, bounds: tuple[float, float]) -> None:
    low, high = bounds
    if not low <= factor <= high:
        msg = f"{name} is {factor}, expected {low:g} to {high:g}"
        raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Factors by which the latency table of a problem is corrected.

    Other corrections, of the overhead and of the reserve, are
    ``Cluster.overhead_bytes`` and ``Training.reserve`` themselves; ``overheads`` and
    ``reserve`` say which of these it gave.

    Attributes
    ----------
    efficiency
        Cluster name -> how much faster its devices compute than their latency
        source says; a missing name is 1.
    bandwidth
        How much more bandwidth the networks between nodes and between clusters have
        than the problem says.
    intra_node
        How much more bandwidth the links inside nodes, and those of device groups, have
        than the problem says.
    overheads
        Names of the clusters whose overhead is the calibration's.
    reserve
        The calibration's; None where the training's own stands.
    """

    efficiency: Mapping[str, float] = field(default_factory=dict)
    bandwidth: float = 1.0
    intra_node: float = 1.0
    overheads: frozenset[str] = field(default=frozenset(), compare=False)
    reserve: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name, factor in self.efficiency.items():
            _check(f"efficiency of {name}", factor, EFFICIENCY_BOUNDS)
        _check("bandwidth", self.bandwidth, BANDWIDTH_BOUNDS)
        _check("intra_node", self.intra_node, BANDWIDTH_BOUNDS)

    def efficiency_of(self, cluster: str) -> float:
        """Return the factor of one cluster."""
        return self.efficiency.get(cluster, 1.0)


NO_CALIBRATION = Calibration()
