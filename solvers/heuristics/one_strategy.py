"""The heuristics ``uniform`` and ``amp``: one strategy for all stages.

HetAuto section 7.2. All stages have the same (dp, cp, tp) and recomputation, so a
cluster may be used only if it has that strategy and enough devices for a stage. As in
all of hetopt, clusters may stay unused unless pins forbid it
(``Problem.with_every_cluster``); HetAuto's Eq. 12 gives every cluster stages, so that
the smallest one limits the devices of all stages.

*Uniform* is Megatron-LM on several clusters: in addition, every stage holds equally
many layers. Micro-batch counts, strategies, orders of clusters and stages of each are
enumerated, as in HetAuto. If the layers do not divide (HetAuto's exp3 has 96 on 23
stages), some stages hold one more than others: the first ones or the last ones,
whichever is better. At granularity ``block``, body units are divided instead of layers.

*AMP* distributes layers by dynamic programming, without context parallelism: cp is 1.
Its own program takes O(L^4). Here hetopt's dynamic program settles every
(strategy, p, q), so the plan is the optimum of AMP's space by the common cost model.

Both visit programs in the order of a lower bound, and end when that exceeds the best
plan so far: the result is that of a full enumeration. They begin with the best of a few
plans of their space, which is reported if the time is too short for the bounds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.ceiling import objective_ceiling
from hetopt.formulations.decision import Decision
from hetopt.formulations.program import ProgramData
from hetopt.formulations.restricting import restrict
from hetopt.formulations.scale import PERIOD_SCALE, scaled_below
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.dp.solver import DpEngine
from hetopt.solvers.race.engine import EngineRun
from hetopt.solvers.unproven.finds import solve_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.table.slice import TableSlice
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.training.pins import Pins
    from hetopt.results.result import Result
    from hetopt.solvers.request import Request
    from hetopt.solvers.unproven.finds import Finds


def solve_uniform(request: Request) -> Result:
    """Find the best plan of equal stages; see ``hetopt.solvers.request.Solve``."""
    return solve_by(partial(_search, equal=True), request, solver="uniform", equal=True)


def solve_amp(request: Request) -> Result:
    """Find the best plan of one strategy; see ``hetopt.solvers.request.Solve``."""
    return solve_by(partial(_search, equal=False), request, solver="amp", context=False)


def _search(finds: Finds, *, equal: bool) -> None:
    """Settle every (strategy, p, q) that may have a better plan."""
    finds.ensure_plan()
    engine = DpEngine(finds.request.seed)
    waiting = _bounds(finds, equal=equal)
    if equal:
        for program in _programs(finds, waiting):
            for decision in _candidates(program):
                finds.offer(decision)
    for program in _programs(finds, waiting):
        _settle(finds, engine, program)


def _bounds(finds: Finds, *, equal: bool) -> list[tuple[float, _EqualStrategy, int]]:
    """Return a lower bound in ns of every (strategy, p, q), the least first."""
    bounds = []
    for part in finds.table.slices:
        same = finds.ledger.leaders(part.microbatches)
        for strategy in _strategies(part):
            if not equal and strategy.cp > 1:
                continue
            finds.check_time()
            alike = _EqualStrategy(finds, part, strategy, equal=equal, leaders=same)
            bounds += [
                (alike.bound(p), alike, p)
                for p in finds.problem.stage_counts
                if alike.least_stages <= p <= min(alike.most_stages, finds.chain.length)
            ]
    return sorted(bounds, key=lambda item: item[0])


def _programs(
    finds: Finds, waiting: list[tuple[float, _EqualStrategy, int]]
) -> Iterator[ProgramData]:
    """Yield programs, split by split, until their bound exceeds the best plan."""
    for bound, alike, p in waiting:
        if bound * PERIOD_SCALE > finds.cutoff + 1:
            return
        finds.check_time()
        yield from alike.programs(p)


def _strategies(part: TableSlice) -> list[Strategy]:
    return sorted({strategy for own in part.clusters for strategy in own.strategies})


def _candidates(data: ProgramData) -> Iterator[Decision]:
    """Yield a few plans of given units, for a good first cutoff.

    The quickest clusters host as many stages as they can. The cluster with the most
    memory comes first in the pipeline, or the quickest, or the slowest.
    """
    units = data.pins.units
    if units is None:
        return
    clusters = data.part.clusters
    kind = data.chain.kinds[0]
    tau = {
        j: int(own.forward_ns[0, kind] + own.backward_ns[0, kind])
        for j, own in enumerate(clusters)
        if own.strategies
    }
    quickest = sorted(tau, key=lambda j: (tau[j], j))
    hosted = {j: int(not data.permitted.may_rest(j)) for j in quickest}
    left = data.stages - sum(hosted.values())
    for j in quickest:
        more = min(left, int(clusters[j].max_stages[0]) - hosted[j])
        hosted[j], left = hosted[j] + more, left - more
    used = [j for j in quickest if hosted[j]]
    roomy = sorted(used, key=lambda j: (-data.usable_bytes[j], j))
    for order in dict.fromkeys((tuple(roomy), tuple(used), tuple(used[::-1]))):
        yield Decision(
            microbatches=data.part.microbatches,
            order=order,
            strategies=tuple(clusters[j].strategies[0] for j in order),
            hosted=tuple(hosted[j] for j in order),
            units=units,
        )


def _settle(finds: Finds, engine: DpEngine, data: ProgramData) -> None:
    """Offer the best plans of one program, as many as are wanted."""
    reported: list[Decision] = []

    def report(decision: Decision) -> None:
        finds.offer(decision)

    while len(reported) < finds.request.params.top:
        finds.check_time()
        cutoff = min(finds.cutoff, data.cutoff)
        answer = engine.settle(
            replace(data, cutoff=cutoff, period_max=_period_max(data, cutoff)),
            EngineRun(
                excluded=reported,
                found=report,
                stop=finds.ledger.is_interrupted,
                deadline=finds.request.deadline,
            ),
        )
        if answer.decision is not None:
            finds.offer(answer.decision)
            reported.append(answer.decision)
        if answer.verdict != "optimal":
            return


def _period_max(data: ProgramData, cutoff: int) -> int | None:
    """Return the longest lambda within a cutoff."""
    more = data.part.microbatches - 1
    if not more:
        return None
    # ``objective_min`` is (q - 1) ``period_min`` plus the least fill.
    return data.period_min + max(0, cutoff - data.objective_min) // more + 2


class _EqualStrategy:
    """Plans at one micro-batch count whose stages all have one strategy.

    Parameters
    ----------
    equal
        Whether all stages hold equally many layers.
    leaders
        Leaders of the groups of identical clusters.

    Attributes
    ----------
    least_stages, most_stages
        Fewest stages, one for each cluster that has to be used, and most stages of all
        clusters together; none if such a cluster does not have the strategy.
    """

    def __init__(
        self,
        finds: Finds,
        part: TableSlice,
        strategy: Strategy,
        *,
        equal: bool,
        leaders: tuple[int, ...],
    ) -> None:
        self._finds = finds
        self._equal = equal
        self._chain = chain = finds.chain
        keep = [
            [own.row(strategy)] if strategy in own.strategies else []
            for own in part.clusters
        ]
        self._part = restrict(part, [np.array(rows, dtype=np.int64) for rows in keep])
        self._leaders = leaders
        clusters = self._part.clusters
        hosts = [own for own in clusters if own.strategies]
        permitted = finds.pricer.permitted
        needed = [not permitted.may_rest(j) for j in range(len(clusters))]
        #: By host, whether it has to be used.
        self._needed = [
            need for own, need in zip(clusters, needed, strict=True) if own.strategies
        ]
        self.least_stages = sum(needed)
        tau = [(own.forward_ns + own.backward_ns)[0] for own in hosts]
        layouts = [int(own.layout[0]) for own in hosts]
        kappa = part.transfer_ns[np.ix_(chain.cut_classes, layouts, layouts)]
        alone = np.eye(len(hosts), dtype=bool)
        least = kappa.min(axis=0, initial=np.iinfo(kappa.dtype).max)
        self._transfer = int(least.min()) if kappa.size else 0
        self._crossing = (
            int(least[~alone].min(initial=least.max())) if kappa.size else 0
        )
        ends = np.array(chain.lead) + np.array(chain.trail)
        self._ends = min(int(own @ ends) for own in tau)
        self._room = [int(own.max_stages[0]) for own in hosts]
        able = sum(self._needed) == self.least_stages
        self.most_stages = sum(self._room) if able else 0
        #: Least time of l neighbouring body units on each host.
        self._run = [chain.shortest(own) for own in tau]

    def bound(self, stages: int) -> float:
        """Return a lower bound on the closed form, in ns."""
        period, fill = self._least(stages)
        return fill + (self._part.microbatches - 1) * period

    def programs(self, stages: int) -> Iterator[ProgramData]:
        """Yield the programs of p = ``stages``; none if there cannot be a plan."""
        if not self._fits(stages):
            return
        table, part = self._finds.table, self._part
        period, _ = self._least(stages)
        bound = self.bound(stages)
        for pins in self._pins(stages):
            yield replace(
                ProgramData.of(
                    table,
                    part,
                    self._chain,
                    pins,
                    stages=stages,
                    cutoff=objective_ceiling(part, self._chain, stages),
                ),
                objective_min=scaled_below(bound),
                period_min=scaled_below(period),
                leaders=self._leaders,
            )

    def _fits(self, stages: int) -> bool:
        """Whether every stage fits on some cluster, and all units on all stages.

        It is a relaxation: every unit is of the smallest kind, ends and temporaries
        take nothing, and warm-up counts are the least of the schedule.
        """
        q, rule = self._part.microbatches, rule_of(self._finds.table.schedule)
        inflight = np.minimum(q, 1 + rule.inside * np.arange(stages))
        if rule.all_first:
            inflight[:] = q
        kinds = list(self._chain.kinds)
        most = np.zeros(stages, dtype=np.int64)
        for usable, own in zip(
            self._finds.table.usable_bytes, self._part.clusters, strict=True
        ):
            if own.strategies:
                each = own.state_bytes[0, kinds].min()
                each = each + inflight * own.activation_bytes[0, kinds].min()
                left = max(0, usable - int(own.fixed_bytes[0]))
                most = np.maximum(most, left // np.maximum(each, 1))
        units = self._chain.length
        least = units // stages if self._equal else 1
        return bool(most.min() >= least and most.sum() >= units)

    def _least(self, stages: int) -> tuple[float, float]:
        """Return lower bounds on lambda and on the fill, in ns."""
        units = self._chain.length
        crossings = max(self.least_stages, self._fewest_hosts(stages)) - 1
        fill = self._ends + 2 * crossings * self._crossing
        fill += 2 * (stages - 1 - crossings) * self._transfer
        if not self._equal:
            first = [
                int(run[1])
                for run, needed in zip(self._run, self._needed, strict=True)
                if needed
            ]
            shortest = min(int(run[1]) for run in self._run)
            rate = sum(
                room / max(1.0, float((run[1:] / np.arange(1, units + 1)).min()))
                for room, run in zip(self._room, self._run, strict=True)
            )
            fill += sum(first) + (units - len(first)) * shortest
            return max(units / rate, shortest, *first), fill
        each, more = divmod(units, stages)
        left, longest = stages - self.least_stages, 0
        # Other stages go to the quickest hosts first: no choice takes less time.
        for length, room, needed in sorted(
            (int(run[each]), room, needed)
            for run, room, needed in zip(
                self._run, self._room, self._needed, strict=True
            )
        ):
            used = needed + min(room - needed, left)
            fill, left = fill + used * length, left - (used - needed)
            if used:
                longest = length
        if more:
            longest = max(longest, min(int(run[each + 1]) for run in self._run))
        return longest, fill

    def _fewest_hosts(self, stages: int) -> int:
        """Return how many hosts have room for all stages, at least."""
        room = np.cumsum(sorted(self._room, reverse=True))
        return 1 + int(np.searchsorted(room, stages))

    def _pins(self, stages: int) -> Iterator[Pins]:
        """Yield the user's pins, with those on units that the heuristic adds."""
        pins, chain = self._finds.problem.rules, self._chain
        if not self._equal:
            yield pins
            return
        each, rest = divmod(chain.length, stages)
        splits = {
            (*(each + 1,) * rest, *(each,) * (stages - rest)),
            (*(each,) * (stages - rest), *(each + 1,) * rest),
        }
        for split in sorted(splits):
            units = chain.with_ends(split)
            if pins.units in (None, units):
                yield replace(pins, units=units)
