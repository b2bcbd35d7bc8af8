"""Brute force over the whole space of MODEL.md section 2, pruned or not: the oracle.

Every micro-batch count, subset and order of clusters, strategy and stage count per
cluster, and split of the units is tried. Where P3 or P4 is relaxed, every sequence of
stages is tried (``tests.oracle.wide``). Plans are priced by the checker's functions,
which tests/agreement/test_longest_path.py holds against explicit graphs; nothing is
shared with hetopt.schedule, hetopt.pricing, hetopt.formulations or hetopt.solvers.

How the open ends of the model are read:

* A plan's *value* is its closed form with the period rounded up to a whole
  nanosecond. Plans are ranked by (value, devices, key); the exact closed form of
  the best plan may exceed another's by less than q - 1 nanoseconds.
* ``stages`` and ``units`` pins of a cluster that is not used see the value 0;
  ``dp``, ``cp``, ``tp`` and ``recompute`` pins are already in the table.
* A forbidden pair (a, b) says that b does not directly follow a along the pipeline.
* Under a free schedule every plan is tried with all warm-up counts that may matter;
  of the best ones it has those of least sum, then the lexicographically smallest. For
  the simulated time all counts up to q are tried, the last stage's too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, pairwise, permutations, product
from math import ceil
from typing import TYPE_CHECKING

from hetopt.check.plan.pricing import PricedStages
from hetopt.check.plan.schedule.closed_form import closed_form
from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.check.plan.schedule.times import last_ends, warmups
from hetopt.cost.table_file.file import table_digest
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.problem.training.choices import RESHARDING
from hetopt.problem.training.principles import PRUNED
from tests.oracle import chunks, free_counts, wide
from tests.oracle.nodes import room

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.check.plan.schedule.times import Times
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles

    #: Stages, micro-batches; cluster, strategy and stages of each run.
    Shape = tuple[int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One plan.

    Attributes
    ----------
    shape
        (p, q, clusters in pipeline order, strategy index of each, stages of each);
        where P3 or P4 is relaxed, of each run.
    units
        Units per stage.
    value_ns
        Closed form with the period rounded up to a whole nanosecond.
    closed_form_ns
        The exact closed form.
    period_ns
        Lambda in it, exactly; 0 with a single micro-batch.
    warmups
        Per stage.
    simulated_ns
        The simulated time; None where nobody asked for it.
    """

    shape: Shape
    units: tuple[int, ...]
    devices: int
    value_ns: int
    closed_form_ns: Fraction
    period_ns: Fraction
    warmups: tuple[int, ...]
    simulated_ns: int | None = None

    @property
    def rank(self) -> tuple[object, ...]:
        """What plans are ordered by, best first."""
        key = (self.devices, self.shape, self.units)
        if self.simulated_ns is not None:
            return (self.simulated_ns, self.closed_form_ns, *key)
        return (self.value_ns, *key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All that brute force finds.

    Attributes
    ----------
    shapes
        The best plan of every shape, best first; empty when infeasible.
    plans
        Number of feasible plans.
    """

    shapes: tuple[Found, ...]
    plans: int

    @property
    def best(self) -> Found | None:
        """The plan to be reported, or None when the instance is infeasible."""
        return self.shapes[0] if self.shapes else None

    @property
    def programs(self) -> dict[tuple[int, int], Found]:
        """Best plan of every feasible (p, q)."""
        best: dict[tuple[int, int], Found] = {}
        for found in self.shapes:
            best.setdefault(found.shape[:2], found)
        return best


def solve(
    problem: Problem,
    table: CostTable,
    principles: Principles = PRUNED,
    *,
    simulated: bool = False,
    estimated: bool = False,
) -> Answer:
    """Try every plan, and rank them by simulated time if asked to.

    Parameters
    ----------
    estimated
        Whether the closed form of several chunks is what programs have instead.
    """
    best: dict[Shape, Found] = {}
    plans = 0
    aims = {"simulated": simulated, "estimated": estimated}
    for found in every_plan(problem, table, principles, **aims):
        plans += 1
        known = best.get(found.shape)
        if known is None or found.rank < known.rank:
            best[found.shape] = found
    return Answer(
        shapes=tuple(sorted(best.values(), key=lambda found: found.rank)), plans=plans
    )


def every_plan(
    problem: Problem,
    table: CostTable,
    principles: Principles = PRUNED,
    *,
    simulated: bool = False,
    estimated: bool = False,
) -> Iterator[Found]:
    """Yield every feasible plan."""
    aims = simulated, estimated
    for part in table.slices:
        if not problem.pins.microbatches.permits(part.microbatches):
            continue
        skeletons = (
            wide.skeletons(problem, table, part, principles)
            if principles.relaxed
            else _skeletons(problem, table, part)
        )
        for order, strategies, stages in skeletons:
            shape = (sum(stages), part.microbatches, order, strategies, stages)
            yield from _splits(problem, table, part, shape, aims)


def to_plan(problem: Problem, table: CostTable, found: Found) -> Plan:
    """Write a found plan as hetopt's own."""
    _, q, order, strategies, stages = found.shape
    part = table.at(q)
    hosts = _hosts(order, strategies, stages)
    ends = _ends(found.units)
    made = []
    for i, (cluster, k) in enumerate(hosts):
        own = part.clusters[cluster]
        resharding = None
        cut = table.cuts[ends[i + 1] - 1] if i + 1 < len(hosts) else table.way_back
        if cut is not None:
            after, k_after = hosts[i + 1] if i + 1 < len(hosts) else hosts[0]
            index = part.resharding[
                cut, own.layout[k], part.clusters[after].layout[k_after]
            ]
            resharding = RESHARDING[index]
        strategy: Strategy = own.strategies[k]
        made.append(
            Stage(
                cluster=table.cluster_names[cluster],
                first_unit=ends[i],
                end_unit=ends[i + 1],
                strategy=strategy,
                warmup=found.warmups[i],
                resharding=resharding,
            )
        )
    return Plan(
        schedule=problem.training.schedule,
        warmup_epsilon=problem.training.epsilon,
        pipelines=(Pipeline(microbatches=q, stages=tuple(made)),),
        problem_digest=table.problem_digest,
        table_digest=table_digest(table),
        chunks=table.chunks,
    )


def _skeletons(
    problem: Problem, table: CostTable, part: TableSlice
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """Yield (clusters in order, strategy of each, stages of each)."""
    names = table.cluster_names
    pins = problem.pins
    body = sum(table.body[kind] for kind in table.units)
    for used in range(1, len(names) + 1):
        for order in permutations(range(len(names)), used):
            named = tuple(names[j] for j in order)
            if pins.order is not None and named != pins.order:
                continue
            if any(pair in pins.forbidden_next for pair in pairwise(named)):
                continue
            met = set(pairwise(named))
            if part.tied_ns is not None and used > 1:
                met.add((named[0], named[-1]))
            if any(problem.links.between(*pair) is None for pair in met):
                continue
            idle = [name for name in names if name not in named]
            if not all(
                pins.of(name).stages.permits(0) and pins.of(name).units.permits(0)
                for name in idle
            ):
                continue
            for strategies in product(
                *(range(len(part.clusters[j].strategies)) for j in order)
            ):
                used_ones = [
                    part.clusters[j].strategies[k]
                    for j, k in zip(order, strategies, strict=True)
                ]
                most_stages = [
                    room(problem.clusters[j], own.devices, own.inside)
                    for j, own in zip(order, used_ones, strict=True)
                ]
                if any(
                    problem.training.global_batch
                    % (part.microbatches * part.clusters[j].strategies[k].dp)
                    for j, k in zip(order, strategies, strict=True)
                ):
                    continue
                for stages in product(*(range(1, most + 1) for most in most_stages)):
                    p = sum(stages)
                    if p > body or not pins.stages.permits(p):
                        continue
                    # Megatron-LM asks for both where stages hold several chunks.
                    if table.chunks > 1 and (p < 2 or part.microbatches % p):
                        continue
                    if table.pairs is not None and part.microbatches <= p:
                        continue
                    if all(
                        pins.of(name).stages.permits(count)
                        for name, count in zip(named, stages, strict=True)
                    ):
                        yield order, strategies, stages


def _splits(
    problem: Problem,
    table: CostTable,
    part: TableSlice,
    shape: Shape,
    aims: tuple[bool, bool] = (False, False),
) -> Iterator[Found]:
    """Yield every feasible plan of one shape."""
    simulated, estimated = aims
    p, _, order, strategies, stages = shape
    total = len(table.units)
    is_body = [table.body[kind] for kind in table.units]
    hosts = _hosts(order, strategies, stages)
    devices = sum(part.clusters[j].strategies[k].devices for j, k in hosts)
    for cuts in combinations(range(1, total), p - 1):
        ends = (0, *cuts, total)
        units = tuple(b - a for a, b in pairwise(ends))
        if problem.pins.units not in (None, units):
            continue
        if not all(any(is_body[a:b]) for a, b in pairwise(ends)):
            continue
        if not _unit_pins_hold(problem, table, order, stages, units):
            continue
        held = _Held(problem, table, part, hosts, ends)
        counts = held.counts()
        if counts is not None and held.fits(counts):
            period, exact = held.closed_form(counts, estimated=estimated)
            yield Found(
                shape=shape,
                units=units,
                devices=devices,
                value_ns=held.rounded_up(period, exact),
                closed_form_ns=exact,
                period_ns=period,
                warmups=counts,
                simulated_ns=held.simulated(counts) if simulated else None,
            )


class _Held:
    """Units on hosts, and what they take according to the checker."""

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        part: TableSlice,
        hosts: Sequence[tuple[int, int]],
        ends: Sequence[int],
    ) -> None:
        self.problem, self.table, self.part = problem, table, part
        self.hosts, self.ends, self.q = hosts, ends, part.microbatches
        self.usable = [table.usable_bytes[j] for j, _ in hosts]
        self.alone = self._priced([1] * len(hosts))
        self.least_bytes = self.alone.memory_bytes

    @property
    def times(self) -> Times:
        """Of the stages; whatever their warm-ups are."""
        return self.alone.times

    def _priced(self, counts: Sequence[int]) -> PricedStages:
        stages = tuple(
            Stage(
                cluster=self.table.cluster_names[j],
                first_unit=first,
                end_unit=end,
                strategy=self.part.clusters[j].strategies[k],
                warmup=count,
                resharding=None,
            )
            for (j, k), (first, end), count in zip(
                self.hosts, pairwise(self.ends), counts, strict=True
            )
        )
        pipeline = Pipeline(microbatches=self.q, stages=stages)
        return PricedStages(self.problem, self.table, pipeline, self.hosts)

    def fits(self, counts: Sequence[int]) -> bool:
        """Whether memory suffices."""
        needs = self.least_bytes
        if set(counts) != {1}:
            needs = self._priced(counts).memory_bytes
        return all(map(int.__le__, needs, self.usable))

    def counts(self) -> tuple[int, ...] | None:
        """Return the warm-ups; None if memory does not even suffice for one each."""
        if not all(map(int.__le__, self.least_bytes, self.usable)):
            return None
        if not STEPS[self.table.schedule].free:
            names = [self.table.cluster_names[j] for j, _ in self.hosts]
            return warmups(self.times, names, self.problem.training.epsilon)
        more = self._priced([2] * len(self.hosts)).memory_bytes
        caps = [
            min(self.q, 1 + (usable - one) // (two - one)) if two > one else self.q
            for one, two, usable in zip(
                self.least_bytes, more, self.usable, strict=True
            )
        ]
        return free_counts.simulated(caps, self.simulated)

    def closed_form(
        self, counts: Sequence[int], *, estimated: bool
    ) -> tuple[Fraction, Fraction]:
        """Return the period and the closed form, exactly.

        That of several chunks has no period.
        """
        times = self.times
        if self.table.chunks > 1:
            if not estimated:
                return Fraction(0), closed_form([times], counts)
            times = chunks.as_passes(times)
        exact = closed_form([times], counts)
        if times.microbatches == 1:
            return Fraction(0), exact
        one_less = replace(times, microbatches=times.microbatches - 1)
        return exact - closed_form([one_less], counts), exact

    def rounded_up(self, period: Fraction, exact: Fraction) -> int:
        """Return the closed form with the period rounded up to a whole nanosecond."""
        return ceil(exact + (self.q * self.table.chunks - 1) * (ceil(period) - period))

    def simulated(self, counts: Sequence[int]) -> int:
        """Return the simulated time."""
        ends = last_ends([self.times], counts)
        return max(map(int.__add__, ends, self.times.sync))


def _hosts(
    order: Sequence[int], strategies: Sequence[int], stages: Sequence[int]
) -> list[tuple[int, int]]:
    """Return (cluster, strategy) of every stage."""
    return [
        (j, k)
        for j, k, count in zip(order, strategies, stages, strict=True)
        for _ in range(count)
    ]


def _ends(units: Sequence[int]) -> list[int]:
    ends = [0]
    for count in units:
        ends.append(ends[-1] + count)
    return ends


def _unit_pins_hold(
    problem: Problem,
    table: CostTable,
    order: Sequence[int],
    stages: Sequence[int],
    units: Sequence[int],
) -> bool:
    start = 0
    hosted: dict[int, int] = {}
    for j, count in zip(order, stages, strict=True):
        hosted[j] = hosted.get(j, 0) + sum(units[start : start + count])
        start += count
    return all(
        problem.pins.of(table.cluster_names[j]).units.permits(count)
        for j, count in hosted.items()
    )
