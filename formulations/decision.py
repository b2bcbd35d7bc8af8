"""What a program decides, free of any solver: enough to write down the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetopt.cost.table import CostTable
    from hetopt.plan import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A point of the pruned space (HetAuto Table 5).

    Attributes
    ----------
    order
        Clusters used, as indices into the table, in pipeline order.
    strategies
        One per used cluster (P4).
    hosted
        Consecutive stages per used cluster (P3).
    units
        Units per stage, ends included.
    """

    microbatches: int
    order: tuple[int, ...]
    strategies: tuple[Strategy, ...]
    hosted: tuple[int, ...]
    units: tuple[int, ...]

    @property
    def stages(self) -> int:
        """Number of pipeline stages, p."""
        return len(self.units)

    @property
    def devices(self) -> int:
        """Devices used."""
        return sum(
            strategy.devices * stages
            for strategy, stages in zip(self.strategies, self.hosted, strict=True)
        )

    @property
    def shape(self) -> tuple[object, ...]:
        """What makes two plans different choices, and not two splits of one."""
        return (self.microbatches, self.order, self.strategies, self.hosted)

    def tie_key(self, table: CostTable) -> tuple[object, ...]:
        """Order among plans of equal closed form: fewer devices, then lexicographic."""
        clusters = table.at(self.microbatches).clusters
        return (
            self.devices,
            self.stages,
            self.microbatches,
            self.order,
            tuple(
                clusters[j].strategies.index(strategy)
                for j, strategy in zip(self.order, self.strategies, strict=True)
            ),
            self.hosted,
            self.units,
        )
