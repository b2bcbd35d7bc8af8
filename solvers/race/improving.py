"""Improve a plan by random changes, without compiled code.

It is for schedules without a heuristic of their own, whose stages hold the more passes
the more stages there are (``hetopt.cost.chunks.holds_ahead``). Bounds over all p leave
that out, so what they lead to rarely fits, and a search that starts from a poor plan
takes long. A change alters the clusters, their order, strategies or stages, or q, and
units are divided anew; or it moves units between stages.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.chunks import holds_ahead
from hetopt.formulations.decision import Decision
from hetopt.solvers.decisions.pricer import Pricer
from hetopt.solvers.race.first_plan import shared
from hetopt.solvers.race.messages import NO_CUTOFF, Found

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.base.deadline import Deadline
    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.formulations.program import ProgramData
    from hetopt.plans.strategy import Strategy
    from hetopt.solvers.race.ledger import Ledger
    from hetopt.solvers.request import Request

#: Share of the time left, and seconds at most, for improving the best plan where the
#: proof stays open.
_LAST_SHARE, _LAST_S = 0.1, 2.0
#: Seconds that it gets at least, if looking for a first plan took all the time.
_LEAST_S = 0.2
#: Plans that random changes try before programs are searched, and at the end.
_TRIES, _LAST_TRIES = 300, 100_000
#: Most changes that one new plan has.
_CHANGES = 3
#: Share of changes that only move units; of plans that are drawn afresh; and of those
#: whose units are divided at random.
_MOVED, _FRESH, _RANDOM = 0.4, 0.25, 0.25


def improves(request: Request) -> bool:
    """Whether random changes are to improve plans; other schedules have heuristics."""
    ahead = any(holds_ahead(part) for part in request.table.slices)
    return ahead and not request.params.principles.relaxed


def deadline_of_proof(request: Request) -> Deadline:
    """Return the deadline of the proof: the rest of the time is for the best plan."""
    left_s = request.deadline.left_s()
    if left_s is None or not improves(request):
        return request.deadline
    return request.deadline.within(left_s - min(_LAST_SHARE * left_s, _LAST_S))


def improve_early(request: Request, ledger: Ledger) -> Found | None:
    """Return the best plan, improved before programs are searched."""
    return _best(request, ledger, request.deadline, _TRIES, "")


def improve_last(request: Request, ledger: Ledger) -> None:
    """Improve the best plan until the time is up, if the proof stayed open."""
    if ledger.is_settled or not improves(request):
        return
    until = request.deadline.within(least_s=_LEAST_S)
    found = _best(request, ledger, until, _LAST_TRIES, "last")
    if found is not None:
        ledger.find(found)


def _best(
    request: Request, ledger: Ledger, until: Deadline, tries: int, phase: str
) -> Found | None:
    ranked = ledger.ranked()
    return improved(
        Pricer(request.problem, request.table),
        ranked[0] if ranked else None,
        tries=tries,
        seed=f"{request.seed} {phase}",
        goes_on=lambda: not until.is_over(),
    )


def improved(
    pricer: Pricer,
    found: Found | None,
    *,
    tries: int,
    seed: str,
    goes_on: Callable[[], bool] = lambda: True,
) -> Found | None:
    """Return the best of a plan and of those that random changes lead to.

    Parameters
    ----------
    found
        The plan; without one, plans are drawn until one fits.
    tries
        How many plans are tried.
    seed
        Of the changes.
    goes_on
        Whether there is time for another try.
    """
    draw, best = random.Random(seed), found
    for _ in range(tries):
        if not goes_on():
            break
        decision = _next(pricer, best, draw)
        value = None if decision is None else pricer.value(decision)
        if decision is None or value is None:
            continue
        # A longer time is no plan: it waits for a link that is practically dead.
        if value <= (NO_CUTOFF if best is None else best.value):
            best = Found(decision=decision, value=value)
    return best


def _next(pricer: Pricer, best: Found | None, draw: random.Random) -> Decision | None:
    """Return the best decision with a few changes; None if that is no plan."""
    if best is None or draw.random() < _FRESH:
        frame = _drawn(pricer, draw)
        return None if frame is None else frame.filled(pricer, draw)
    decision: Decision | None = best.decision
    for _ in range(draw.randint(1, _CHANGES)):
        if decision is not None:
            decision = _changed(pricer, decision, draw)
    return None if decision == best.decision else decision


def _changed(
    pricer: Pricer, decision: Decision, draw: random.Random
) -> Decision | None:
    """Return a decision with one random change; None if that is no plan."""
    if decision.stages > 1 and draw.random() < _MOVED:
        return _with_units_moved(pricer, decision, draw)
    frame = _Frame.of(decision)
    change = draw.choice((_restrategise, _restage, _reorder, _add, _drop, _rebatch))
    changed = change(pricer, frame, draw)
    return None if changed is None else changed.filled(pricer, draw)


def _with_units_moved(
    pricer: Pricer, decision: Decision, draw: random.Random
) -> Decision | None:
    units = list(decision.units)
    giver, taker = draw.sample(range(len(units)), 2)
    count = draw.randint(1, max(1, units[giver] // 2))
    units[giver] -= count
    units[taker] += count
    # Every stage has a unit of the body.
    least = 1
    least += sum(pricer.chain.lead) * (giver == 0)
    least += sum(pricer.chain.trail) * (giver == len(units) - 1)
    return replace(decision, units=tuple(units)) if units[giver] >= least else None


@dataclass(frozen=True, slots=True)
class _Run:
    """Stages of one cluster."""

    cluster: int
    strategy: Strategy
    stages: int


@dataclass(frozen=True, slots=True)
class _Frame:
    """A decision without its units."""

    microbatches: int
    runs: tuple[_Run, ...]

    @classmethod
    def of(cls, decision: Decision) -> _Frame:
        columns = zip(decision.order, decision.strategies, decision.hosted, strict=True)
        return cls(decision.microbatches, tuple(_Run(*column) for column in columns))

    def with_run(self, index: int, run: _Run) -> _Frame:
        """Return the frame with another run in the place of one."""
        runs = (*self.runs[:index], run, *self.runs[index + 1 :])
        return replace(self, runs=runs)

    def filled(self, pricer: Pricer, draw: random.Random) -> Decision | None:
        """Return the decision with units, mostly such that no stage is slow."""
        p = sum(run.stages for run in self.runs)
        if (p, self.microbatches) not in pricer.programs or not self.runs:
            return None
        data = pricer.data(self.microbatches, p)
        chain, hosts = data.chain, []
        for run in self.runs:
            own = data.part.clusters[run.cluster]
            if run.strategy not in own.strategies:
                return None
            k = own.row(run.strategy)
            if run.stages > own.max_stages[k]:
                return None
            hosts += [(run.cluster, own, k)] * run.stages
        tau = [_unit_ns(own, k, data) for _, own, k in hosts]
        units = None
        if draw.random() >= _RANDOM:
            units = shared(chain.length, tau, _most_units(hosts, data))
        if units is None and p <= chain.length:
            ends = [
                0,
                *sorted(draw.sample(range(1, chain.length), p - 1)),
                chain.length,
            ]
            units = [after - before for before, after in pairwise(ends)]
        if units is None:
            return None
        return Decision(
            microbatches=self.microbatches,
            order=tuple(run.cluster for run in self.runs),
            strategies=tuple(run.strategy for run in self.runs),
            hosted=tuple(run.stages for run in self.runs),
            units=chain.with_ends(units),
        )


def _drawn(pricer: Pricer, draw: random.Random) -> _Frame | None:
    """Return some of the clusters in any order, with any strategies and stages."""
    part = draw.choice(pricer.table.slices)
    able = [j for j, own in enumerate(part.clusters) if len(own.strategies)]
    if not able:
        return None
    runs = []
    for j in draw.sample(able, draw.randint(1, len(able))):
        own = part.clusters[j]
        k = draw.randrange(len(own.strategies))
        most = min(int(own.max_stages[k]), pricer.chain.length)
        runs.append(_Run(j, own.strategies[k], draw.randint(1, max(1, most))))
    return _Frame(part.microbatches, tuple(runs))


def _unit_ns(own: ClusterTable, k: int, data: ProgramData) -> float:
    """Return the mean time of a body unit."""
    kinds = list(data.chain.kinds)
    body = data.chain.prefix[-1][kinds] / data.chain.length
    times = own.forward_ns[k, kinds] + own.backward_ns[k, kinds]
    return float(times @ body)


def _most_units(
    hosts: list[tuple[int, ClusterTable, int]], data: ProgramData
) -> list[int]:
    """Return about how many body units each stage holds."""
    most, warmups = [], 1
    kinds, last = list(data.chain.kinds), len(hosts) - 1
    for i in range(last, -1, -1):
        j, own, k = hosts[i]
        if i < last:
            crosses = j != hosts[i + 1][0]
            warmups += data.rule.across if crosses else data.rule.inside
        held = data.rule.in_flight(warmups, data.part.most_held)
        bytes_each = own.state_bytes[k] + held * own.activation_bytes[k]
        room = data.usable_bytes[j] - own.fixed_bytes[k]
        for end, there in ((data.chain.lead, i == 0), (data.chain.trail, i == last)):
            room -= int(bytes_each @ np.array(end)) if there else 0
        room -= own.temporary_bytes[k, kinds].max()
        most.append(max(0, int(room) // max(1, int(bytes_each[kinds].max()))))
    return most[::-1]


def _restrategise(pricer: Pricer, frame: _Frame, draw: random.Random) -> _Frame | None:
    """Return the frame with another strategy of one run, or of all."""
    part = pricer.table.at(frame.microbatches)
    index = draw.randrange(len(frame.runs))
    run = frame.runs[index]
    strategy = draw.choice(part.clusters[run.cluster].strategies)
    if draw.random() < 0.5:
        return frame.with_run(index, replace(run, strategy=strategy))
    runs = tuple(replace(each, strategy=strategy) for each in frame.runs)
    return replace(frame, runs=runs)


def _restage(pricer: Pricer, frame: _Frame, draw: random.Random) -> _Frame | None:
    """Return the frame with more or fewer stages of one run."""
    index = draw.randrange(len(frame.runs))
    run = frame.runs[index]
    stages = draw.choice((run.stages - 1, run.stages + 1, 2 * run.stages))
    return frame.with_run(index, replace(run, stages=stages)) if stages else None


def _reorder(pricer: Pricer, frame: _Frame, draw: random.Random) -> _Frame | None:
    runs = list(frame.runs)
    draw.shuffle(runs)
    return replace(frame, runs=tuple(runs))


def _add(pricer: Pricer, frame: _Frame, draw: random.Random) -> _Frame | None:
    """Return the frame with one more cluster."""
    used = {run.cluster for run in frame.runs}
    part = pricer.table.at(frame.microbatches)
    rest = [
        j
        for j, own in enumerate(part.clusters)
        if j not in used and len(own.strategies)
    ]
    if not rest:
        return None
    j = draw.choice(rest)
    run = _Run(j, draw.choice(part.clusters[j].strategies), 1)
    if draw.random() < 0.5:
        return frame.with_run(draw.randrange(len(frame.runs)), run)
    at = draw.randint(0, len(frame.runs))
    return replace(frame, runs=(*frame.runs[:at], run, *frame.runs[at:]))


def _drop(pricer: Pricer, frame: _Frame, draw: random.Random) -> _Frame | None:
    at = draw.randrange(len(frame.runs))
    return replace(frame, runs=(*frame.runs[:at], *frame.runs[at + 1 :]))


def _rebatch(pricer: Pricer, frame: _Frame, draw: random.Random) -> _Frame | None:
    """Return the frame at another q."""
    counts = [part.microbatches for part in pricer.table.slices]
    return replace(frame, microbatches=draw.choice(counts))
