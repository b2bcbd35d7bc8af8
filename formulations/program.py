"""What the program of one (p, q) is built from, whatever the formulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.problem.principles import PRUNED

if TYPE_CHECKING:
    from hetopt.cost.table import TableSlice
    from hetopt.formulations.chain import Chain
    from hetopt.problem.principles import Principles
    from hetopt.problem.training import Pins, ScheduleName

#: Objectives are counted in 1 / PERIOD_SCALE ticks and lambda is rounded up to a
#: whole one: a program's optimum exceeds the closed form of its plan by less than
#: (q - 1) / PERIOD_SCALE ticks.
PERIOD_SCALE = 1000


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


def objective_ceiling(part: TableSlice, chain: Chain, stages: int) -> int:
    """Return an objective, in 1 / PERIOD_SCALE ticks, that no plan exceeds.

    Every unit takes as long as it can anywhere, every boundary too, and the period
    is no longer than the fill.
    """
    counts = chain.prefix[-1] + np.array(chain.lead) + np.array(chain.trail)
    used = [cluster for cluster in part.clusters if len(cluster.strategies)]
    times = [(cluster.forward_ns + cluster.backward_ns).max(axis=0) for cluster in used]
    syncs = [cluster.sync_ns.max() for cluster in used]
    sync_units = [cluster.sync_unit_ns.max(axis=0) for cluster in used]
    tied = 0 if part.tied_ns is None else int(part.tied_ns.max(initial=0))
    fill = 2 * (stages - 1) * int(part.transfer_ns.max(initial=0))
    sync = tied
    if used:
        fill += int(np.max(times, axis=0) @ counts)
        sync += int(max(syncs)) + int(np.max(sync_units, axis=0) @ counts)
    return PERIOD_SCALE * (part.microbatches * fill + sync)
