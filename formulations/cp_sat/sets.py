"""Sets and parameters of the CP-SAT program: possible hosts and their costs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from hetopt.formulations.scale import PERIOD_SCALE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.formulations.program import ProgramData

    #: Cost of one unit of each kind, by (cluster, strategy).
    Costs = Mapping[tuple[int, int], list[int]]


class Sets:
    """Sets and parameters of one (p, q), without choices that are impossible.

    Attributes
    ----------
    stages, microbatches
        p and q.
    passes, most_held
        Forwards that a stage runs, q or with v chunks q v; the most of these it holds.
    steady
        Whether the period counts: there is more than one pass.
    rule, gpipe
        The schedule's rule for warm-up counts; whether all forwards come first.
    period_max
        No plan within the cutoff has a longer period; in 1 / PERIOD_SCALE ticks.
    capacity
        Largest number of body units that a stage of (j, k) can hold within the cutoff;
        its keys are the available choices.
    clusters, options, slots
        Clusters that may host; strategies and most stages of each of them.
    """

    def __init__(self, data: ProgramData) -> None:
        self.data = data
        self.part = data.part
        self.chain = data.chain
        self.stages = data.stages
        self.microbatches = data.part.microbatches
        self.passes = data.part.passes
        self.most_held = data.part.most_held
        self.steady = self.passes > 1
        self.rule = data.rule
        self.gpipe = self.rule.all_first
        self.period_max = min(
            data.cutoff // max(1, self.passes - 1),
            data.cutoff if data.period_max is None else data.period_max,
        )
        self.capacity = self._capacities()
        self.clusters = sorted({j for j, _ in self.capacity})
        self.options = {
            j: [k for i, k in self.capacity if i == j] for j in self.clusters
        }
        self.slots = {
            j: max(self.room_for(j, k) for k in self.options[j]) for j in self.clusters
        }

    def table(self, j: int) -> ClusterTable:
        """Return the coefficients of cluster j."""
        return self.part.clusters[j]

    def layout(self, j: int, k: int) -> int:
        """Return the layout of a boundary tensor under (j, k)."""
        return int(self.table(j).layout[k])

    def layouts(self, j: int) -> list[int]:
        """Return the layouts cluster j may have."""
        return sorted({self.layout(j, k) for k in self.options[j]})

    def room_for(self, j: int, k: int) -> int:
        """Return how many stages of (j, k) the cluster has devices for."""
        return min(self.stages, int(self.table(j).max_stages[k]))

    def takers(self, j: int, r: int) -> list[int]:
        """Return the strategies under which slot r of cluster j may be live.

        Constraints on slot r are needed only for these strategies.
        """
        return [k for k in self.options[j] if self.room_for(j, k) > r]

    def free_bytes(self, j: int, k: int) -> int:
        """Return the bytes left for units on one device of a stage of (j, k)."""
        return self.data.usable_bytes[j] - int(self.table(j).fixed_bytes[k])

    @cached_property
    def tau(self) -> Costs:
        """Forward and backward time of one unit."""
        return self._of_units("round_trip_ns")

    @cached_property
    def fill(self) -> Costs:
        """Time that one unit adds to the fill: tau, if no gradients run later."""
        return self._of_units("fill_ns")

    @cached_property
    def handed_on(self) -> Costs:
        """Time that one unit adds to a window that begins before its stage."""
        return self._of_units("handed_on_ns")

    @cached_property
    def ending(self) -> Costs:
        """Time that one unit adds to the end of a stage: g, and later gradients."""
        return self._of_units("end_unit_ns")

    @cached_property
    def phi(self) -> Costs:
        """Forward time of one unit."""
        return self._of_units("forward_ns")

    @cached_property
    def beta(self) -> Costs:
        """Backward time of one unit."""
        return self._of_units("backward_ns")

    def _of_units(self, name: str) -> Costs:
        """Return a column of the table by available (cluster, strategy)."""
        return {
            (j, k): list(map(int, getattr(self.table(j), name)[k]))
            for j, k in self.capacity
        }

    def _capacities(self) -> dict[tuple[int, int], int]:
        """Return ``capacity`` from lambda's upper bound and memory at the least W.

        A strategy that cannot hold one unit, or whose cluster has no room for one
        stage, is not available.
        """
        capacities = {}
        for j, cluster in enumerate(self.part.clusters):
            hosted = self.data.pins.of(self.data.names[j]).stages
            if not any(hosted.permits(m) for m in range(1, self.stages + 1)):
                continue
            for k in range(len(cluster.strategies)):
                capacity = self._capacity(j, k)
                if capacity >= 1 and self.room_for(j, k) >= 1:
                    capacities[j, k] = capacity
        return capacities

    def _capacity(self, j: int, k: int) -> int:
        # Every other stage needs a unit, too.
        length = self.chain.length - (self.stages - 1)
        if self.steady:
            time = self.chain.shortest(self.table(j).round_trip_ns[k])
            time = time * PERIOD_SCALE
            length = min(length, int((time <= self.period_max).sum()) - 1)
        return min(length, self._memory_capacity(j, k))

    def _memory_capacity(self, j: int, k: int) -> int:
        """Return the most body units that may fit anywhere in the chain."""
        table = self.table(j)
        in_flight = self.rule.in_flight(1, self.most_held)
        need = self.chain.shortest(
            table.state_bytes[k] + in_flight * table.activation_bytes[k]
        )
        need[1:] += min(int(table.temporary_bytes[k][f]) for f in self.chain.kinds)
        return int((need <= self.free_bytes(j, k)).sum()) - 1
