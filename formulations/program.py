"""What the program of one (p, q) is built from, whatever the formulation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.chunks import with_stages
from hetopt.cost.table import LONGEST_NS
from hetopt.formulations.permitted import Permitted
from hetopt.problem.principles import PRUNED
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table import CostTable, TableSlice
    from hetopt.formulations.chain import Chain
    from hetopt.problem.principles import Principles
    from hetopt.problem.training import Pins, ScheduleName
    from hetopt.schedule.schedules import ScheduleRule

#: Objectives are counted in 1 / PERIOD_SCALE ticks and lambda is rounded up to a
#: whole one: a program's optimum exceeds the closed form of its plan by less than
#: (q - 1) / PERIOD_SCALE ticks, passes of v chunks counting as q v micro-batches.
PERIOD_SCALE = 1000

#: The longest objective of any plan, in 1 / PERIOD_SCALE ticks.
LONGEST = PERIOD_SCALE * LONGEST_NS

#: Sums of floating-point times are off by less than this share of them, as a shift.
_ROUNDING = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramData:
    """What one (p, q) is built from.

    Attributes
    ----------
    part
        Slice of the table at q, reduced to the strategies worth looking at.
    names, devices, usable_bytes
        Per cluster.
    cutoff
        Largest objective of interest, in 1 / PERIOD_SCALE ticks.
    objective_min
        A valid lower bound on the objective, in 1 / PERIOD_SCALE ticks.
    period_min, period_max
        A range that holds lambda of every plan within the cutoff, in the same unit.
    principles
        What a plan has to keep; an engine refuses those it has no program for.
    leaders
        Of every cluster the first one identical to it (``solvers.identical``); empty
        where nobody looked. An engine may keep to one of each plan's copies.
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
        """Return the program of one p within a cutoff, over a slice of a table."""
        lead, trail = np.array(chain.lead) > 0, np.array(chain.trail) > 0
        return cls(
            part=with_stages(part, lead, trail, stages),
            chain=chain,
            schedule=table.schedule,
            pins=pins,
            names=table.cluster_names,
            devices=table.cluster_devices,
            usable_bytes=table.usable_bytes,
            stages=stages,
            cutoff=cutoff,
        )

    def stock(self, j: int) -> tuple[tuple[int, int], ...]:
        """Return what a cluster's nodes say of stages of several sizes, without P4.

        Pairs (n, N), n ascending: stages of at least n devices take at most N devices
        together. The first has n = 0 and all devices.

        Every size divides the next (``hetopt.problem.packing``): each larger stage
        takes of a node a multiple of n, so that stages of n find room beside larger
        ones as long as all of them take no more than the n max_stages(n) devices that
        stages of n can have.
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
        """What the pins permit."""
        return Permitted.of(self.pins, self.names)

    @property
    def rule(self) -> ScheduleRule:
        """What the schedule asks of warm-up counts."""
        return rule_of(self.schedule)


def objective_ceiling(part: TableSlice, chain: Chain, stages: int) -> int:
    """Return an objective, in 1 / PERIOD_SCALE ticks, that no plan exceeds.

    Every unit takes as long as it can anywhere, every boundary too, and the period
    is no longer than the fill. What is longer than ``LONGEST`` is no plan, nor is what
    needs any time that is too long.
    """
    counts = chain.prefix[-1] + np.array(chain.lead) + np.array(chain.trail)
    used = [cluster for cluster in part.clusters if len(cluster.strategies)]
    times = [
        _longest(cluster.forward_ns) + _longest(cluster.backward_ns) for cluster in used
    ]
    syncs = [_longest(cluster.sync_ns) for cluster in used]
    sync_units = [_longest(cluster.end_unit_ns) for cluster in used]
    tied = 0 if part.tied_ns is None else int(_longest(part.tied_ns.reshape(-1)))
    fill = 2 * (stages - 1) * int(_longest(part.transfer_ns.reshape(-1)))
    sync = tied
    if used:
        fill += int(np.max(times, axis=0) @ counts)
        sync += int(max(syncs)) + int(np.max(sync_units, axis=0) @ counts)
    return min(LONGEST, PERIOD_SCALE * (part.passes * fill + sync))


def _longest(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the longest time over the first axis that an iteration may hold."""
    longest: NDArray[np.int64] = np.where(times > LONGEST_NS, 0, times).max(
        axis=0, initial=0
    )
    return longest


def scaled_below(time_ns: float) -> int:
    """Return a whole objective no larger than a bound found in floating point."""
    scaled = int(time_ns * PERIOD_SCALE)
    return max(0, scaled - 1 - (scaled >> _ROUNDING))


def scaled_above(objective: int) -> int:
    """Return one no smaller than an objective that was rounded to floating point."""
    return objective + 1 + (objective >> _ROUNDING)


def ticks_above(objective: int) -> float:
    """Return ticks above an objective, however sums of floating point are rounded."""
    return scaled_above(objective) / PERIOD_SCALE


def within(part: TableSlice, cutoff: int) -> TableSlice:
    """Return the slice with no time longer than one tick more than the cutoff.

    A plan with a time above the cutoff is above the cutoff either way. Programs get
    no coefficient that is larger than what they are about.
    """
    most = cutoff // PERIOD_SCALE + 1
    tied = part.tied_ns

    def cut(times: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.minimum(times, most)

    return replace(
        part,
        clusters=tuple(
            replace(
                own,
                forward_ns=cut(own.forward_ns),
                backward_ns=cut(own.backward_ns),
                sync_ns=cut(own.sync_ns),
                sync_unit_ns=cut(own.sync_unit_ns),
                weight_ns=(
                    None
                    if own.weight_ns is None
                    else np.minimum(own.weight_ns, cut(own.backward_ns) // 2)
                ),
            )
            for own in part.clusters
        ),
        transfer_ns=cut(part.transfer_ns),
        occupancy_ns=cut(part.occupancy_ns),
        tied_ns=None if tied is None else cut(tied),
    )
