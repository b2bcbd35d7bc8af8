"""Run the tasks of the race in a worker process."""

from __future__ import annotations

import importlib
from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.base.deadline import Deadline
from hetopt.cost.chunks import holds_ahead
from hetopt.errors import SolverError
from hetopt.formulations.ceiling import objective_ceiling, within
from hetopt.formulations.permitted import Permitted
from hetopt.formulations.restricting import restrict
from hetopt.formulations.scale import ticks_above
from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from hetopt.problem.training.principles import PRUNED
from hetopt.results.settlement import OPTIMALITY_GAP
from hetopt.solvers.bounds.bound_q import BoundTask, QBounds, explore, is_narrow, plans
from hetopt.solvers.bounds.by_count import Survey, sharpen, survey
from hetopt.solvers.bounds.cluster_costs import FIRST, LAST
from hetopt.solvers.bounds.relaxation import Choice
from hetopt.solvers.decisions.exact import exact_value
from hetopt.solvers.decisions.identical import subsets
from hetopt.solvers.pools.memory import share_bytes
from hetopt.solvers.race.engine import EngineRun
from hetopt.solvers.race.messages import (
    NO_CUTOFF,
    Found,
    Payload,
    RelaxedPlanTask,
    SettleTask,
    SurveyTask,
    TieTask,
    Verdict,
)
from hetopt.solvers.race.programs import Programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hetopt.formulations.decision import Decision
    from hetopt.solvers.race.engine import Engine

#: Seconds an engine may spend on one order of a relaxed optimum.
_POLISH_S = 3.0
#: Orders of a relaxed optimum's clusters that are tried.
_MOST_ORDERS = 24


def make(
    payload: Payload, shared: Any, say: Callable[[Any], None]
) -> Callable[[Any], Any]:
    """Return the function that runs tasks in this process."""
    worker = Worker(payload, shared, say)
    return worker.run


class Worker:
    """Runs tasks for one problem."""

    def __init__(
        self, payload: Payload, shared: Any, say: Callable[[Any], None]
    ) -> None:
        memory_bytes = share_bytes(payload.workers)
        self.programs = Programs(payload, memory_bytes, keep_all=False)
        self.problem = payload.problem
        self.table = payload.table
        self._permitted = Permitted.of(
            payload.problem.rules, payload.table.cluster_names
        )
        self.top = payload.top
        self.seed = payload.seed
        self.principles = payload.principles
        self.say = say
        self._shared = shared
        module, attribute = payload.engine.split(":")
        self._engine: Engine = getattr(importlib.import_module(module), attribute)(
            payload.seed
        )
        self._engine.most_bytes = memory_bytes

    def run(self, task: Any) -> Any:
        """Run one task."""
        match task:
            case BoundTask():
                return self._bound(task)
            case SurveyTask():
                return self._survey(task)
            case RelaxedPlanTask():
                return self._plan_relaxed(task)
            case SettleTask():
                return self._settle(task)
            case TieTask():
                return self._tie(task)
            case _:
                msg = f"unknown task {task!r}"
                raise SolverError(msg)

    # --------------------------------------------------------------- shared

    def _cutoff(self) -> int:
        return int(self._shared.value)

    def _is_beaten(self, cutoff: int) -> bool:
        return self._cutoff() < cutoff

    def _ensure_same(self, decision: Decision, bound: int) -> None:
        """Raise SolverError if an optimum does not cost what the engine proved."""
        value = self.programs.value(decision)
        if abs(value - bound) > OPTIMALITY_GAP * value:
            msg = f"the engine proved {bound} for a plan that costs {value}: {decision}"
            raise SolverError(msg)

    def _report(self, decision: Decision) -> None:
        """Price a decision and report it to the parent process."""
        decision = self.programs.canonical(decision)
        self.say(Found(decision=decision, value=self.programs.value(decision)))

    # ---------------------------------------------------------------- tasks

    def _bound(self, task: BoundTask) -> QBounds:
        box_bounds = self.programs.box_bounds(task.microbatches)
        found = explore(
            box_bounds,
            task.known,
            cutoff=self._limit_ns(),
            goal=task.goal,
            evaluations=task.evaluations,
        )
        first = task.order is None
        if not task.plans or not is_narrow(box_bounds, found, first=first):
            return found
        for decision in plans(
            box_bounds,
            found,
            table=self.table,
            pins=self.problem.rules,
            groups=self.programs.leaders(task.microbatches),
            seed=f"{self.seed} {task.microbatches} {task.visit}",
            order=task.order,
        ):
            if self._is_plan(decision):
                self._report(decision)
        return replace(found, plan_searches=found.plan_searches + 1)

    def _limit_ns(self) -> float:
        """Return the cutoff in ns, rounded up; infinite if there is none."""
        cutoff = self._cutoff()
        return np.inf if cutoff == NO_CUTOFF else ticks_above(cutoff)

    def _is_plan(self, decision: Decision) -> bool:
        """Whether a decision fits into memory and satisfies the pins."""
        if not self._permitted.permits(decision):
            return False
        p, q = decision.stages, decision.microbatches
        if p not in self.problem.stage_counts or not self.problem.has_program(p, q):
            return False
        data = self.programs.data(
            self.table.at(decision.microbatches),
            self.problem.rules,
            decision.stages,
            self._cutoff(),
        )
        return exact_value(decision, data) is not None

    def _survey(self, task: SurveyTask) -> Survey:
        cutoff = None if task.cutoff is None else ticks_above(task.cutoff)
        self.programs.answer_within(NO_CUTOFF if task.cutoff is None else task.cutoff)
        relaxation = self.programs.relaxation(task.microbatches)
        return survey(relaxation, cutoff=cutoff)

    def _plan_relaxed(self, task: RelaxedPlanTask) -> float:
        """Report plans like the relaxed optimum; return a bound in ns."""
        relaxation, period = self.programs.relaxation(task.microbatches), task.period
        bound = 0.0
        if self.principles.relaxed:
            # Plans that keep all principles are good enough here, and quick to find.
            relaxation = self.programs.relaxed(task.microbatches, PRUNED)
            found = survey(relaxation, cutoff=None)
            period = float(found.period[task.stages])
        elif holds_ahead(relaxation.part):
            # A bound on all plans, not only on those within the cutoff.
            self.programs.answer_within(NO_CUTOFF)
            relaxation = self.programs.at_stages(task.microbatches, task.stages)
            found = survey(relaxation, cutoff=None)
            period = float(found.period[task.stages])
            bound = float(found.bound[task.stages])
            if not np.isfinite(bound):
                return bound
        period = sharpen(relaxation, task.stages, period)
        choices = relaxation.choices(period, task.stages)
        if choices is None:
            return bound
        part = self.programs.part(task.microbatches)
        only = restrict(
            part,
            [
                np.array(
                    [c.strategy for c in choices if c.cluster == j], dtype=np.int64
                )
                for j in range(len(part.clusters))
            ],
        )
        for order in filter(self._is_as_pinned, _orders(choices)):
            pins = self._fixed(choices, order)
            cutoff = min(
                self._cutoff(),
                objective_ceiling(only, self.programs.chain, task.stages),
            )
            data = self.programs.data(within(only, cutoff), pins, task.stages, cutoff)
            answer = self._engine.settle(
                replace(data, principles=PRUNED),
                EngineRun(deadline=Deadline.after(_POLISH_S)),
            )
            if answer.decision is not None:
                self._report(answer.decision)
        return bound

    def _is_as_pinned(self, order: Sequence[Choice]) -> bool:
        """Whether clusters are in the user's order, if there is one."""
        pinned = self.problem.rules.order
        if pinned is None:
            return True
        places = [pinned.index(self.table.cluster_names[c.cluster]) for c in order]
        return places == sorted(places)

    def _fixed(self, choices: Sequence[Choice], order: Sequence[Choice]) -> Pins:
        """Return the user's pins, with order and stages fixed as well."""
        names, pins = self.table.cluster_names, self.problem.rules
        clusters = dict(pins.clusters)
        for choice in choices:
            name = names[choice.cluster]
            clusters[name] = replace(
                clusters.get(name, ClusterPins()),
                stages=Domain(allowed=frozenset({choice.stages})),
            )
        return replace(
            pins, order=tuple(names[c.cluster] for c in order), clusters=clusters
        )

    def _settle(self, task: SettleTask) -> Verdict:
        """Report the ``top`` best plans within the cutoff, and return the verdict."""
        reported: list[Decision] = []
        best: int | None = None
        rising: int | None = None
        self.programs.answer_within(self._cutoff())
        ceiling = objective_ceiling(
            self.programs.part(task.microbatches), self.programs.chain, task.stages
        )
        while True:
            cutoff = self._cutoff()
            known = cutoff != NO_CUTOFF
            if not known:
                # No plan yet: search below twice the bound, then four times, ...
                if rising is None:
                    rising = 2 * self.programs.least(task.microbatches, task.stages)
                cutoff = min(rising, ceiling)
            narrowed = self.programs.focused(task.microbatches, task.stages, cutoff)
            if narrowed is None:
                if not known and cutoff < ceiling:
                    rising = 2 * cutoff
                    continue
                return Verdict(
                    closed=True,
                    searched=bool(reported),
                    bound=best if best is not None else cutoff + 1,
                )
            choices = subsets(narrowed)
            if choices > self._engine.most_subsets:
                # The engine would run out of memory: the bound is what the boxes give.
                bound = narrowed.objective_min if best is None else best
                return Verdict(closed=False, searched=bool(reported), bound=bound)
            how = EngineRun(
                excluded=reported,
                found=self._report,
                stop=partial(self._is_beaten, cutoff),
                deadline=Deadline.after(task.time_limit_s),
                start=self._within(task.start, cutoff, reported),
            )
            answer = self._engine.settle(narrowed, how)
            if answer.verdict == "optimal" and answer.decision is not None:
                self._ensure_same(answer.decision, answer.bound)
                self._report(answer.decision)
                best = self.programs.value(answer.decision) if best is None else best
                reported.append(self.programs.canonical(answer.decision))
                if len(reported) < self.top:
                    continue
                return Verdict(closed=True, searched=True, bound=best)
            if answer.verdict == "infeasible":
                if not known and cutoff < ceiling:
                    rising = 2 * cutoff
                    continue
                bound = best if best is not None else cutoff + 1
                return Verdict(closed=True, searched=True, bound=bound)
            if self._cutoff() >= cutoff:
                bound = answer.bound if best is None else min(best, answer.bound)
                return Verdict(closed=False, searched=True, bound=bound)

    def _within(
        self, start: Decision | None, cutoff: int, excluded: Sequence[Decision]
    ) -> Decision | None:
        """Return ``start`` if it is within the cutoff and not excluded, else None."""
        if start is None or self.programs.value(start) > cutoff:
            return None
        shapes = {decision.shape for decision in excluded}
        return None if start.shape in shapes else start

    def _tie(self, task: TieTask) -> list[Found]:
        named: list[Found] = []
        deadline = Deadline.after(task.time_limit_s)
        for value in task.values:
            narrowed = self.programs.focused(task.microbatches, task.stages, value)
            while narrowed is not None and len(named) < self.top:
                known = [found.decision for found in named]
                how = EngineRun(excluded=known, deadline=deadline)
                decision = self._engine.settle_tie(narrowed, value, how)
                if decision is None:
                    break
                named.append(
                    Found(decision=self.programs.canonical(decision), value=value)
                )
        return named


def _orders(choices: Sequence[Choice]) -> Iterator[Sequence[Choice]]:
    """Yield orders in which the first and the last cluster keep their roles."""
    first = [c for c in choices if c.role & FIRST]
    last = [c for c in choices if c.role & LAST and not c.role & FIRST]
    middle = [c for c in choices if not c.role & (FIRST | LAST)]
    for count, order in enumerate(permutations(middle)):
        if count == _MOST_ORDERS:
            return
        yield [*first, *order, *last]
