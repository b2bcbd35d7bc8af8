"""What a program decides, independent of solvers: enough to write the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.strategy import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A plan as a list of runs of stages.

    A run is a maximal sequence of stages of one cluster with one strategy. In the
    pruned space (HetAuto Table 5) every used cluster has one; if P4 is relaxed, the
    next run may be of the same cluster with another strategy, and if P3 is, of a
    cluster that has had a run before.

    Attributes
    ----------
    order
        Cluster of each run, as an index into the table, in pipeline order.
    strategies
        Strategy of each run.
    hosted
        Stages of each run.
    units
        Units per stage, ends included.
    warmups
        Warm-up counts per stage; None for those that the schedule prescribes.
    """

    microbatches: int
    order: tuple[int, ...]
    strategies: tuple[Strategy, ...]
    hosted: tuple[int, ...]
    units: tuple[int, ...]
    warmups: tuple[int, ...] | None = None

    @property
    def stages(self) -> int:
        """Number of pipeline stages, p."""
        return len(self.units)

    @property
    def devices(self) -> int:
        """Number of devices used."""
        return sum(
            strategy.devices * stages
            for strategy, stages in zip(self.strategies, self.hosted, strict=True)
        )

    @property
    def shape(self) -> tuple[object, ...]:
        """All but units per stage and warm-ups: plans of one shape are one choice."""
        return (self.microbatches, self.order, self.strategies, self.hosted)

    def tie_key(self, table: CostTable) -> tuple[object, ...]:
        """Return the key that ranks plans of equal closed form, fewer devices first."""
        clusters = table.at(self.microbatches).clusters
        return (
            self.devices,
            self.stages,
            self.microbatches,
            self.order,
            tuple(
                clusters[j].row(strategy)
                for j, strategy in zip(self.order, self.strategies, strict=True)
            ),
            self.hosted,
            self.units,
            self.warmups or (),
        )
