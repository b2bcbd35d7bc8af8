"""The heuristics ``uniform`` and ``amp``: one strategy for all stages.

HetAuto section 7.2. The same (dp, cp, tp) and recomputation serve every stage, so no
cluster may be used that has no such strategy, and none with fewer devices than a stage
takes.

*Uniform* is Megatron-LM on several clusters: besides, every stage holds equally many
layers. Micro-batch counts, strategies, orders of clusters and stages of each are
enumerated, as in HetAuto. Where the layers do not divide (HetAuto's exp3 has 96 on 23
stages) some stages hold one more than others: the first ones or the last ones,
whichever is better. At granularity ``block`` it is body units that are shared out.

*AMP* distributes layers by dynamic programming, and knows no context parallelism: cp
is 1. Its own program takes O(L^4); here every (strategy, p, q) is settled by ours, so
what is found is the optimum of AMP's space by the cost model that all solvers share.

Both visit programs in the order of a lower bound, and leave out those above the best
plan so far: the result is that of a full enumeration.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.program import PERIOD_SCALE, ProgramData, objective_ceiling
from hetopt.formulations.space import restrict
from hetopt.solvers.dp import DpEngine
from hetopt.solvers.heuristic import solve_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.table import CostTable, TableSlice
    from hetopt.formulations.decision import Decision
    from hetopt.plan import Strategy
    from hetopt.problem.problem import Problem
    from hetopt.problem.training import Pins
    from hetopt.result import Result
    from hetopt.solvers.heuristic import Finds
    from hetopt.solvers.params import RaceParams


def solve_uniform(
    problem: Problem,
    table: CostTable,
    params: RaceParams,
    *,
    time_limit_s: float | None,
    seed: int,
    cutoff: float | None = None,
) -> Result:
    """Find the best plan of equal stages; see ``hetopt.solvers.racing.Solve``."""
    return solve_by(
        partial(_search, equal=True),
        problem,
        table,
        params,
        solver="uniform",
        time_limit_s=time_limit_s,
        seed=seed,
        cutoff=cutoff,
    )


def solve_amp(
    problem: Problem,
    table: CostTable,
    params: RaceParams,
    *,
    time_limit_s: float | None,
    seed: int,
    cutoff: float | None = None,
) -> Result:
    """Find the best plan of one strategy; see ``hetopt.solvers.racing.Solve``."""
    return solve_by(
        partial(_search, equal=False),
        problem,
        table,
        params,
        solver="amp",
        time_limit_s=time_limit_s,
        seed=seed,
        cutoff=cutoff,
    )


def _search(finds: Finds, params: RaceParams, seed: int, *, equal: bool) -> None:
    """Settle every (strategy, p, q) that may hold something better."""
    problem, table, chain = finds.problem, finds.table, finds.chain
    engine = DpEngine(seed)
    number = count()
    waiting: list[tuple[float, int, _Alike, int]] = []
    for part in table.slices:
        for strategy in _strategies(part):
            if not equal and strategy.cp > 1:
                continue
            alike = _Alike(finds, part, strategy, equal=equal)
            for p in problem.stage_counts:
                if p > chain.length:
                    continue
                bound = alike.bound(p)
                if np.isfinite(bound):
                    heapq.heappush(waiting, (bound, next(number), alike, p))
    while waiting:
        bound, _, alike, p = heapq.heappop(waiting)
        if bound * PERIOD_SCALE > finds.cutoff + 1:
            return
        for pins in alike.pins(p):
            _settle(finds, engine, alike.data(p, pins), params.top)


def _strategies(part: TableSlice) -> list[Strategy]:
    return sorted({strategy for own in part.clusters for strategy in own.strategies})


def _settle(finds: Finds, engine: DpEngine, data: ProgramData, top: int) -> None:
    """Offer the best plans of one program, as many as are wanted."""
    reported: list[Decision] = []
    ceiling = data.cutoff

    def report(decision: Decision) -> None:
        finds.offer(decision)

    while len(reported) < top:
        finds.check_time()
        answer = engine.settle(
            replace(data, cutoff=min(finds.cutoff, ceiling)),
            excluded=reported,
            found=report,
            stop=lambda: False,
            time_limit_s=finds.left_s(),
        )
        if answer.decision is not None:
            finds.offer(answer.decision)
            reported.append(answer.decision)
        if answer.verdict != "optimal":
            return


class _Alike:
    """Plans at one micro-batch count whose stages all have one strategy.

    Parameters
    ----------
    equal
        Whether all stages hold equally many layers.
    """

    def __init__(
        self, finds: Finds, part: TableSlice, strategy: Strategy, *, equal: bool
    ) -> None:
        self._finds = finds
        self._equal = equal
        self._chain = chain = finds.chain
        self._part = restrict(
            part,
            [
                np.array(
                    [k for k, own in enumerate(cluster.strategies) if own == strategy],
                    dtype=np.int64,
                )
                for cluster in part.clusters
            ],
        )
        hosts = [own for own in self._part.clusters if own.strategies]
        tau = [(own.forward_ns + own.backward_ns)[0] for own in hosts]
        ends = np.array(chain.lead) + np.array(chain.trail)
        self._ends = min(int(own @ ends) for own in tau)
        self._room = [int(own.max_stages[0]) for own in hosts]
        #: Least time of l neighbouring body units on each host.
        self._run = [chain.shortest(own) for own in tau]

    def bound(self, stages: int) -> float:
        """Return a lower bound on the closed form in ns; infinite without a plan."""
        if sum(self._room) < stages:
            return np.inf
        units, more = self._chain.length, self._part.microbatches - 1
        shortest = min(int(run[1]) for run in self._run)
        if not self._equal:
            rate = sum(
                room / max(1.0, float((run[1:] / np.arange(1, units + 1)).min()))
                for room, run in zip(self._room, self._run, strict=True)
            )
            period = max(units / rate, shortest)
            fill = min(int(run[units]) for run in self._run if len(run) > units)
            # No run of all units is as quick as its parts may be apart.
            fill = min(fill, units * shortest)
            return self._ends + fill + more * period
        each = units // stages
        lengths = sorted(
            (int(run[each]), room)
            for run, room in zip(self._run, self._room, strict=True)
        )
        best, fill, left = np.inf, 0, stages
        # The quickest hosts first: more of them make it no better.
        for length, room in lengths:
            used = min(room, left)
            fill, left = fill + used * length, left - used
            if not left:
                best = fill + more * length
                break
        return self._ends + float(best)

    def pins(self, stages: int) -> Iterator[Pins]:
        """Yield the user's pins, with those on units that the heuristic adds."""
        pins, chain = self._finds.problem.pins, self._chain
        if not self._equal:
            yield pins
            return
        each, rest = divmod(chain.length, stages)
        splits = {
            (*(each + 1,) * rest, *(each,) * (stages - rest)),
            (*(each,) * (stages - rest), *(each + 1,) * rest),
        }
        for split in sorted(splits):
            units = list(split)
            units[0] += sum(chain.lead)
            units[-1] += sum(chain.trail)
            if pins.units is None or pins.units == tuple(units):
                yield replace(pins, units=tuple(units))

    def data(self, stages: int, pins: Pins) -> ProgramData:
        """Return the program of p = ``stages``."""
        table = self._finds.table
        return ProgramData(
            part=self._part,
            chain=self._chain,
            schedule=table.schedule,
            pins=pins,
            names=table.cluster_names,
            devices=table.cluster_devices,
            usable_bytes=table.usable_bytes,
            stages=stages,
            cutoff=objective_ceiling(self._part, self._chain, stages),
        )
