"""Which decisions make one plan faster than another.

The user's plan is changed into hetopt's by one decision after another, and every plan
on the way is priced. Decisions are tried in this order: micro-batches, schedule, layer
split, degrees by cluster, recomputation by cluster, stages by cluster, and last the
order of the clusters. The layer split is the number of layers of each stage of a
cluster, wherever in the pipeline the cluster is; on another number of stages the
cluster's layers are spread evenly.

A step is the first decision that leads to a possible plan (devices and memory suffice,
and every cluster and stage is decided) whose closed form is not longer. If no single
decision does, two are taken together: of all such pairs the one with the least closed
form; then three; then all that are left. So a decision that helps only together with
another is found, the steps end at hetopt's plan, and their gains add up. What a
decision gains depends on the decisions before it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Annotated

from annotated_types import MinLen

from hetopt.base.fields import Seconds
from hetopt.base.file_record import FileRecord
from hetopt.base.words import counted
from hetopt.check.plan.packing import packing_findings
from hetopt.errors import InputError
from hetopt.export.back.differences import (
    DEGREES,
    MICROBATCHES,
    ORDER,
    RECOMPUTATION,
    SCHEDULE,
    SPLIT,
    STAGES,
    Change,
    bodies,
    changes,
    own,
    stand_together,
)
from hetopt.export.back.importing import decision_of
from hetopt.export.back.roomy_table import roomy_table
from hetopt.pricing.price import price
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.decisions.assembly import plan_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.export.back.importing import Imported
    from hetopt.plans.plan import Plan, Stage
    from hetopt.plans.strategy import Strategy
    from hetopt.pricing.price import Price
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName

#: So many decisions at most are tried together before all that are left.
_MOST_TOGETHER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(FileRecord):
    """Changes made together, and the times of the plan they lead to, in seconds."""

    changes: Annotated[tuple[Change, ...], MinLen(1)]
    closed_form_s: Seconds
    iteration_time_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Two plans of one problem, and the steps from the first to the second.

    Attributes
    ----------
    steps
        In order; the last has the times of ``ours``. Empty if the plans are the same.
    """

    mine: Imported
    ours: Plan
    ours_price: Price
    steps: tuple[Step, ...]


def explain(
    mine: Imported,
    ours: Plan,
    table: CostTable,
    problem: Problem,
    *,
    table_given: bool = False,
) -> Explanation:
    """Price both plans and every plan on the way from one to the other.

    Parameters
    ----------
    table
        The table that ``ours`` was planned with.
    problem
        The user's problem.
    table_given
        Whether ``table`` is the user's own, which then prices all plans.

    Raises
    ------
    InputError
        A plan has strategies per unit or unequal chunks, the schedules or chunks of
        the plans cannot be mixed, or ``table`` lacks a strategy.
    """
    for plan in (mine.plan, ours):
        if plan.per_unit or plan.cuts is not None:
            what = "a strategy for each unit" if plan.per_unit else "unequal chunks"
            msg = f"has {what}, which cannot be taken apart"
            raise InputError(msg, field="plan")
    _ensure_comparable(mine.plan.schedule, ours.schedule)
    if mine.plan.chunks != ours.chunks:
        msg = (
            f"is {ours.chunks}, but the files have "
            f"{counted(mine.plan.chunks, 'chunk')} per stage, so their plans cannot be "
            f"mixed: set training.chunks to {mine.plan.chunks}"
        )
        raise InputError(msg, field="training.chunks")
    costs = table
    if not table_given:
        stages = (*mine.plan.pipeline.stages, *ours.pipeline.stages)
        costs = roomy_table(
            problem,
            {mine.plan.pipeline.microbatches, ours.pipeline.microbatches},
            [(stage.cluster, stage.strategy) for stage in stages],
        )
    mixer = _Mixer(mine, ours, costs, problem)
    return Explanation(
        mine=mine,
        ours=ours,
        ours_price=price(ours, table),
        steps=tuple(_steps(mixer, changes(mine.plan, ours))),
    )


def _ensure_comparable(theirs: ScheduleName, own: ScheduleName) -> None:
    """Raise InputError for schedules whose plans cannot be mixed.

    A table separates weight gradients for all of its plans or for none.
    """
    rules = rule_of(theirs), rule_of(own)
    if any(rule.folded for rule in rules):
        msg = f"is {own}, that of the files {theirs}: folded plans cannot be explained"
        raise InputError(msg, field="training.schedule")
    if rules[0].splits != rules[1].splits:
        msg = (
            f"is {own}, that of the files {theirs}, where gradients of weights run "
            "later: give the problem theirs"
        )
        raise InputError(msg, field="training.schedule")


class _Mixer:
    """Plans that take some decisions from one plan and the others from another."""

    def __init__(
        self, mine: Imported, ours: Plan, costs: CostTable, problem: Problem
    ) -> None:
        self.mine = mine.plan
        self.ours = ours
        self.start_s = mine.price.closed_form_s
        self._costs = costs
        self._offered = problem.clusters
        self._usable = dict(
            zip(mine.table.cluster_names, mine.table.usable_bytes, strict=True)
        )
        # If the first plan does not fit, those on the way may need as much memory.
        self._most = max(1.0, self._fullest(mine.plan, mine.price))

    def price(self, taken: Collection[Change]) -> Price | None:
        """Return the price of a plan with these decisions of ours, if possible."""
        plan = self._plan(taken)
        if plan is None:
            return None
        for cluster in self._offered:
            hosted = [
                stage.strategy
                for stage in plan.pipeline.stages
                if stage.cluster == cluster.name
            ]
            if any(packing_findings(cluster, hosted)):
                return None
        try:
            found = price(plan, self._costs)
        except InputError:
            return None
        return found if self._fullest(plan, found) <= self._most else None

    def _fullest(self, plan: Plan, found: Price) -> float:
        """Return the largest share of memory that a stage needs; at most 1 fits."""
        return max(
            need / self._usable[stage.cluster]
            for need, stage in zip(
                found.memory_bytes, plan.pipeline.stages, strict=True
            )
        )

    def _plan(self, taken: Collection[Change]) -> Plan | None:
        keys = {(change.what, change.cluster) for change in taken}

        def of(what: str, cluster: str | None = None) -> Plan:
            return self.ours if (what, cluster) in keys else self.mine

        clusters = self._clusters(of)
        rows = []
        for number, name in enumerate(clusters):
            degrees = self._strategy(of(DEGREES, name), clusters, number)
            policy = self._strategy(of(RECOMPUTATION, name), clusters, number)
            if degrees is None or policy is None:
                return None
            rows.append((name, replace(degrees, recompute=policy.recompute)))
        units = _units(of(SPLIT).pipeline.stages, clusters)
        if units is None:
            return None
        scheduled = of(SCHEDULE)
        warmups = None
        if rule_of(scheduled.schedule).free:
            warmups = tuple(stage.warmup for stage in scheduled.pipeline.stages)
            if len(warmups) != len(rows):
                return None
        table = replace(
            self._costs,
            schedule=scheduled.schedule,
            warmup_epsilon=scheduled.warmup_epsilon,
        )
        microbatches = of(MICROBATCHES).pipeline.microbatches
        decision = decision_of(table, microbatches, rows, units, warmups)
        try:
            return plan_of(decision, table, self.mine.table_digest)
        except (KeyError, InputError):
            # A strategy that structure rules out, or warm-ups that deadlock.
            return None

    def _clusters(self, of: Callable[..., Plan]) -> list[str]:
        """Return the cluster of every stage."""
        plans = (self.mine, self.ours)
        if not all(stand_together(plan.pipeline.stages) for plan in plans):
            return [stage.cluster for stage in of(STAGES).pipeline.stages]
        found = []
        for name in dict.fromkeys(s.cluster for s in of(ORDER).pipeline.stages):
            stages = own(of(STAGES, name).pipeline.stages, name)
            # The number of stages of a cluster that only one plan uses is that plan's.
            for plan in plans:
                stages = stages or own(plan.pipeline.stages, name)
            found += [name] * len(stages)
        return found

    def _strategy(
        self, source: Plan, clusters: Sequence[str], number: int
    ) -> Strategy | None:
        """Return a plan's strategy of a stage; None if the plan has none for it.

        A cluster that this plan does not use has the strategy of the other plan.
        """
        name = clusters[number]
        stages = source.pipeline.stages
        if [stage.cluster for stage in stages] == list(clusters):
            return stages[number].strategy
        found = {stage.strategy for stage in own(stages, name)}
        if not found:
            other = self.ours if source is self.mine else self.mine
            found = {stage.strategy for stage in own(other.pipeline.stages, name)}
        return found.pop() if len(found) == 1 else None


def _steps(mixer: _Mixer, left: tuple[Change, ...]) -> Iterable[Step]:
    """Yield the steps that the module's docstring describes."""
    taken: tuple[Change, ...] = ()
    reached_s = mixer.start_s
    while left:
        together, found = _next(mixer, taken, left, reached_s)
        taken += together
        left = tuple(change for change in left if change not in together)
        reached_s = found.closed_form_s
        yield Step(
            changes=together,
            closed_form_s=found.closed_form_s,
            iteration_time_s=found.iteration_time_s,
        )


def _next(
    mixer: _Mixer,
    taken: tuple[Change, ...],
    left: tuple[Change, ...],
    reached_s: float,
) -> tuple[tuple[Change, ...], Price]:
    """Return the next decisions, and the price of the plan they lead to."""
    for size in range(1, min(_MOST_TOGETHER, len(left) - 1) + 1):
        gained = []
        for together in combinations(left, size):
            found = mixer.price((*taken, *together))
            if found is None or found.closed_form_s > reached_s:
                continue
            if size == 1:
                return together, found
            gained.append((together, found))
        if gained:
            return min(gained, key=lambda pair: pair[1].closed_form_s)
    last = mixer.price((*taken, *left))
    if last is None:
        msg = "is not in the latency table that prices both plans"
        raise InputError(msg, field="plan")
    return left, last


def _units(source: Sequence[Stage], clusters: Sequence[str]) -> list[int] | None:
    """Return the units of every stage on clusters in another order.

    If a cluster has another number of stages, its units are spread evenly. None if
    other clusters are used, or a stage would have no unit.
    """
    held = bodies(source)
    if set(held) != set(clusters):
        return None
    for name, each in held.items():
        count = clusters.count(name)
        if count != len(each):
            low, more = divmod(sum(each), count)
            held[name] = [low + (number < more) for number in range(count)]
    units = [held[name].pop(0) for name in clusters]
    return units if min(units) > 0 else None
