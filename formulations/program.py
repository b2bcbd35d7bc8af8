"""The data from which every formulation builds the program of one (p, q)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.chunks import with_stages
from hetopt.formulations.permitted import Permitted
from hetopt.problem.training.principles import PRUNED
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.chain import Chain
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.problem.training.pins import Pins
    from hetopt.problem.training.principles import Principles
    from hetopt.schedule.schedules import ScheduleRule


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramData:
    """The data of one (p, q).

    Attributes
    ----------
    part
        Slice of the table at q, reduced to the strategies worth considering.
    names, devices, usable_bytes
        Per cluster.
    cutoff
        Largest objective of interest, in 1 / PERIOD_SCALE ticks.
    objective_min
        A valid lower bound on the objective, in 1 / PERIOD_SCALE ticks.
    period_min, period_max
        Range of lambda of all plans within the cutoff, in the same unit.
    principles
        Principles that a plan has to keep; an engine refuses those it does not support.
    leaders
        For every cluster the first one identical to it (``solvers.identical``); empty
        if unknown. An engine may consider only one of several identical plans.
    warmup_epsilon
        As of the table.
    """

    part: TableSlice
    chain: Chain
    schedule: ScheduleName
    pins: Pins
    names: tuple[str, ...]
    devices: tuple[int, ...]
    usable_bytes: tuple[int, ...]
    stages: int
    cutoff: int
    objective_min: int = 0
    period_min: int = 0
    period_max: int | None = None
    principles: Principles = PRUNED
    leaders: tuple[int, ...] = ()
    warmup_epsilon: float | None = None

    @classmethod
    def of(
        cls,
        table: CostTable,
        part: TableSlice,
        chain: Chain,
        pins: Pins,
        *,
        stages: int,
        cutoff: int,
    ) -> ProgramData:
        """Return the data of one p within a cutoff, for a slice of a table."""
        lead, trail = np.array(chain.lead) > 0, np.array(chain.trail) > 0
        return cls(
            part=with_stages(part, lead, trail, stages),
            chain=chain,
            schedule=table.schedule,
            warmup_epsilon=table.warmup_epsilon,
            pins=pins,
            names=table.cluster_names,
            devices=table.cluster_devices,
            usable_bytes=table.usable_bytes,
            stages=stages,
            cutoff=cutoff,
        )

    def stock(self, j: int) -> tuple[tuple[int, int], ...]:
        """Return a cluster's device limits for stages of several sizes, without P4.

        Pairs (n, N), n ascending: stages of at least n devices take at most N devices
        together. The first has n = 0 and all devices.

        Every size divides the next (``hetopt.problem.cluster.packing``): a larger stage
        takes a multiple of n devices of a node. So stages of n devices find room beside
        larger ones as long as all these take at most the n max_stages(n) devices that
        stages of n devices alone could have.
        """
        own = self.part.clusters[j]
        found = [(0, self.devices[j])]
        sizes = sorted(set(own.devices.tolist()))
        if all(larger % size == 0 for size, larger in pairwise(sizes)):
            most = dict(zip(own.devices.tolist(), own.max_stages.tolist(), strict=True))
            for size in sizes:
                if size * most[size] < found[-1][1]:
                    found.append((size, size * most[size]))
        return tuple(found)

    @property
    def permitted(self) -> Permitted:
        """Return what the pins permit, with clusters by number."""
        return Permitted.of(self.pins, self.names)

    @property
    def rule(self) -> ScheduleRule:
        """The schedule's rule for warm-up counts."""
        return rule_of(self.schedule, self.warmup_epsilon)
