"""The tasks of the race, as a worker process runs them."""

from __future__ import annotations

import importlib
from dataclasses import replace
from functools import lru_cache, partial
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.errors import SolverError
from hetopt.formulations.chain import Chain
from hetopt.formulations.program import (
    PERIOD_SCALE,
    ProgramData,
    objective_ceiling,
    scaled_above,
    scaled_below,
    ticks_above,
    within,
)
from hetopt.formulations.space import restrict, undominated
from hetopt.pricing import pipeline_times
from hetopt.problem.principles import PRUNED
from hetopt.problem.training import ClusterPins, Domain, Pins
from hetopt.result import OPTIMALITY_GAP
from hetopt.solvers.bounds.bound_q import BoundTask, QBounds, explore, is_narrow, plans
from hetopt.solvers.bounds.boxes import BoxBounds, largest_box_bounds_bytes
from hetopt.solvers.bounds.by_count import Survey, focus, sharpen, survey
from hetopt.solvers.bounds.cluster_costs import FIRST, LAST
from hetopt.solvers.bounds.ordering_loop import order_once
from hetopt.solvers.bounds.relaxation import Choice, Relaxation
from hetopt.solvers.bounds.sums import add_once
from hetopt.solvers.decisions.assembly import plan_of, value_of
from hetopt.solvers.decisions.exact import exact_value
from hetopt.solvers.decisions.identical import canonical, leaders, subsets
from hetopt.solvers.pools.memory import share_bytes
from hetopt.solvers.race.messages import (
    NO_CUTOFF,
    CompileTask,
    Found,
    Payload,
    RelaxedPlanTask,
    SettleTask,
    SurveyTask,
    TieTask,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hetopt.cost.table import TableSlice
    from hetopt.formulations.decision import Decision
    from hetopt.problem.principles import Principles
    from hetopt.solvers.race.engine import Engine

#: Seconds an engine may spend on one order of a relaxed optimum.
_POLISH_S = 3.0
#: Orders of a relaxed optimum that are tried.
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
        self.problem = payload.problem
        self.table = payload.table
        self.top = payload.top
        self.seed = payload.seed
        self.principles = payload.principles
        self.chain = Chain.of(payload.table)
        self.say = say
        self._shared = shared
        module, attribute = payload.engine.split(":")
        self._engine: Engine = getattr(importlib.import_module(module), attribute)(
            payload.seed
        )
        memory_bytes = share_bytes(payload.workers)
        if hasattr(self._engine, "most_bytes"):
            self._engine.most_bytes = memory_bytes
        self.part = lru_cache(maxsize=None)(self._part)
        self.relaxation = lru_cache(maxsize=4)(self._relaxation)
        kept = memory_bytes // (2 * largest_box_bounds_bytes(self.table))
        self.box_bounds = lru_cache(maxsize=max(2, kept))(self._box_bounds)
        self.leaders = lru_cache(maxsize=None)(self._leaders)

    def run(self, task: Any) -> Any:
        """Run one task."""
        match task:
            case CompileTask():
                return self._compile(task)
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

    def _part(self, microbatches: int) -> TableSlice:
        part = self.table.at(microbatches)
        if self.top > 1:
            # The next best plans may well use what a better strategy replaces.
            return part
        return undominated(self.table, part, self.chain, self.principles)

    def _box_bounds(self, microbatches: int) -> BoxBounds:
        return BoxBounds(
            table=self.table,
            part=self.table.at(microbatches),
            chain=self.chain,
            pins=self.problem.pins,
            most_stages=self._most_stages(),
        )

    def _most_stages(self) -> int:
        counts = self.problem.stage_counts
        return max(p for p in counts if p <= self.chain.length)

    def _relaxation(self, microbatches: int) -> Relaxation:
        return self._relaxed(microbatches, self.principles)

    def _relaxed(self, microbatches: int, principles: Principles) -> Relaxation:
        return Relaxation(
            table=self.table,
            part=self.part(microbatches),
            chain=self.chain,
            pins=self.problem.pins,
            most_stages=self._most_stages(),
            principles=principles,
        )

    def _data(
        self, part: TableSlice, pins: Pins, stages: int, cutoff: int
    ) -> ProgramData:
        return ProgramData(
            part=part,
            chain=self.chain,
            schedule=self.table.schedule,
            pins=pins,
            names=self.table.cluster_names,
            devices=self.table.cluster_devices,
            usable_bytes=self.table.usable_bytes,
            stages=stages,
            cutoff=cutoff,
            principles=self.principles,
            leaders=self.leaders(part.microbatches),
        )

    def _canonical(self, decision: Decision) -> Decision:
        """Return the copy of a plan that the tie rule prefers."""
        return canonical(decision, self.leaders(decision.microbatches))

    def _leaders(self, microbatches: int) -> tuple[int, ...]:
        return leaders(
            self.table,
            self.table.at(microbatches),
            self.problem.pins,
            self.principles,
        )

    def _is_beaten(self, cutoff: int) -> bool:
        return self._cutoff() < cutoff

    def _value(self, decision: Decision) -> int:
        """Return a decision's exact objective."""
        return value_of(pipeline_times(plan_of(decision, self.table, ""), self.table))

    def _ensure_same(self, decision: Decision, bound: int) -> None:
        """Raise SolverError if an optimum costs something else than its bound."""
        value = self._value(decision)
        if abs(value - bound) > OPTIMALITY_GAP * value:
            msg = f"the engine proves {bound} of a plan that costs {value}: {decision}"
            raise SolverError(msg)

    def _report(self, decision: Decision) -> None:
        """Price a decision and tell the parent."""
        decision = self._canonical(decision)
        self.say(Found(decision=decision, value=self._value(decision)))

    # ---------------------------------------------------------------- tasks

    def _compile(self, task: CompileTask) -> None:
        """Call some kernels once; the other workers load them then."""
        q = task.microbatches
        match task.kernels:
            case "boxes":
                box_bounds = self.box_bounds(q)
                root = box_bounds.root()
                box_bounds.bounded(root, np.inf)
                box_bounds.by_option(root)
            case "ordering":
                order_once()
                relaxation = self.relaxation(q)
                bound = survey(relaxation, q, cutoff=None).bound
                if np.isfinite(bound).any():
                    stages = int(bound.argmin())
                    focus(relaxation, q, stages, cutoff=float(bound[stages]))
            case "clusters":
                for cluster in self.relaxation(q).clusters:
                    cluster.costs(np.inf)
            case "sums":
                add_once()

    def _bound(self, task: BoundTask) -> QBounds:
        box_bounds = self.box_bounds(task.microbatches)
        found = explore(
            box_bounds,
            task.known,
            cutoff=self._limit_ns(),
            goal=task.goal,
            evaluations=task.evaluations,
        )
        first = task.order is None
        if not task.visit or not is_narrow(box_bounds, found, first=first):
            return found
        for decision in plans(
            box_bounds,
            found,
            table=self.table,
            pins=self.problem.pins,
            groups=self.leaders(task.microbatches),
            seed=f"{self.seed} {task.microbatches} {task.visit}",
            order=task.order,
        ):
            if self._is_plan(decision):
                self._report(decision)
        return replace(found, plan_searches=found.plan_searches + 1)

    def _limit_ns(self) -> float:
        """Return the cutoff in ns, one tick more; infinite if there is none."""
        cutoff = self._cutoff()
        return np.inf if cutoff == NO_CUTOFF else ticks_above(cutoff)

    def _is_plan(self, decision: Decision) -> bool:
        """Whether a decision fits into memory and keeps to the pins that count."""
        pins, part = self.problem.pins, self.table.at(decision.microbatches)
        hosted = dict(zip(decision.order, decision.hosted, strict=True))
        held, first = dict.fromkeys(hosted, 0), 0
        for j, stages in hosted.items():
            held[j] = sum(decision.units[first : first + stages])
            first += stages
        for j, name in enumerate(self.table.cluster_names):
            own = pins.of(name)
            if not own.stages.permits(hosted.get(j, 0)):
                return False
            if not own.units.permits(held.get(j, 0)):
                return False
        if decision.stages not in self.problem.stage_counts:
            return False
        data = self._data(part, pins, decision.stages, self._cutoff())
        return exact_value(decision, data) is not None

    def _survey(self, task: SurveyTask) -> Survey:
        cutoff = None if task.cutoff is None else ticks_above(task.cutoff)
        relaxation = self.relaxation(task.microbatches)
        return survey(relaxation, task.microbatches, cutoff=cutoff)

    def _plan_relaxed(self, task: RelaxedPlanTask) -> None:
        relaxation, period = self.relaxation(task.microbatches), task.period
        if self.principles.relaxed:
            # Plans that keep all principles will do, and are quickly found.
            relaxation = self._relaxed(task.microbatches, PRUNED)
            found = survey(relaxation, task.microbatches, cutoff=None)
            period = float(found.period[task.stages])
        period = sharpen(relaxation, task.microbatches, task.stages, period)
        choices = relaxation.choices(period, task.stages)
        if choices is None:
            return
        part = self.part(task.microbatches)
        only = restrict(
            part,
            [
                np.array(
                    [c.strategy for c in choices if c.cluster == j], dtype=np.int64
                )
                for j in range(len(part.clusters))
            ],
        )
        for order in _orders(choices):
            pins = self._fixed(choices, order)
            cutoff = min(
                self._cutoff(), objective_ceiling(only, self.chain, task.stages)
            )
            data = self._data(within(only, cutoff), pins, task.stages, cutoff)
            answer = self._engine.settle(
                replace(data, principles=PRUNED),
                excluded=(),
                found=lambda decision: None,
                stop=lambda: False,
                time_limit_s=_POLISH_S,
            )
            if answer.decision is not None:
                self._report(answer.decision)

    def _fixed(self, choices: Sequence[Choice], order: Sequence[Choice]) -> Pins:
        """Return the user's pins, with order and stages fixed as well."""
        names, pins = self.table.cluster_names, self.problem.pins
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
        """Report every plan within the cutoff that is among the ``top`` best."""
        reported: list[Decision] = []
        best: int | None = None
        rising: int | None = None
        ceiling = objective_ceiling(
            self.part(task.microbatches), self.chain, task.stages
        )
        while True:
            cutoff = self._cutoff()
            known = cutoff != NO_CUTOFF
            if not known:
                # No plan yet: look below twice the bound, then four times, ...
                if rising is None:
                    rising = 2 * self._least(task.microbatches, task.stages)
                cutoff = min(rising, ceiling)
            narrowed = self._focus(task.microbatches, task.stages, cutoff)
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
            if choices > getattr(self._engine, "most_subsets", choices):
                # It would run out of memory; plans and bounds come from its boxes.
                bound = narrowed.objective_min if best is None else best
                return Verdict(closed=False, searched=bool(reported), bound=bound)
            answer = self._engine.settle(
                narrowed,
                excluded=reported,
                found=self._report,
                stop=partial(self._is_beaten, cutoff),
                time_limit_s=task.time_limit_s,
                start=self._within(task.start, cutoff, reported),
            )
            if answer.verdict == "optimal" and answer.decision is not None:
                self._ensure_same(answer.decision, answer.bound)
                self._report(answer.decision)
                best = self._value(answer.decision) if best is None else best
                reported.append(self._canonical(answer.decision))
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
        """Return a decision if the program that is left admits it."""
        if start is None or self._value(start) > cutoff:
            return None
        shapes = {decision.shape for decision in excluded}
        return None if start.shape in shapes else start

    def _tie(self, task: TieTask) -> list[Found]:
        named: list[Found] = []
        for value in task.values:
            narrowed = self._focus(task.microbatches, task.stages, value)
            while narrowed is not None and len(named) < self.top:
                decision = self._engine.settle_tie(
                    narrowed, value, excluded=[found.decision for found in named]
                )
                if decision is None:
                    break
                named.append(Found(decision=self._canonical(decision), value=value))
        return named

    def _focus(self, microbatches: int, stages: int, cutoff: int) -> ProgramData | None:
        """Return the program within the cutoff, or None when a bound refutes it."""
        relaxation = self.relaxation(microbatches)
        # One tick more: the relaxation's sums are of floats.
        limit = ticks_above(cutoff)
        narrowed = focus(relaxation, microbatches, stages, cutoff=limit)
        if narrowed.bound > limit:
            return None
        part = within(restrict(self.part(microbatches), narrowed.keep), cutoff)
        longest = int(min(narrowed.period_max * PERIOD_SCALE, cutoff))
        return replace(
            self._data(part, self.problem.pins, stages, cutoff),
            objective_min=scaled_below(narrowed.bound),
            period_min=scaled_below(narrowed.period_min),
            period_max=scaled_above(longest),
        )

    def _least(self, microbatches: int, stages: int) -> int:
        found = survey(self.relaxation(microbatches), microbatches, cutoff=None)
        bound = found.bound[stages]
        return int(bound * PERIOD_SCALE) if np.isfinite(bound) else NO_CUTOFF


def _orders(choices: Sequence[Choice]) -> Iterator[Sequence[Choice]]:
    """Pipeline orders in which the first and the last cluster keep their roles."""
    first = [c for c in choices if c.role & FIRST]
    last = [c for c in choices if c.role & LAST and not c.role & FIRST]
    middle = [c for c in choices if not c.role & (FIRST | LAST)]
    for count, order in enumerate(permutations(middle)):
        if count == _MOST_ORDERS:
            return
        yield [*first, *order, *last]
