"""Surveys of a q and visits of a (p, q), as a worker of the guided search runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.formulations.restricting import restrict
from hetopt.formulations.scale import scaled_below, ticks_above
from hetopt.solvers.bounds.by_count import focus, survey
from hetopt.solvers.mcts.best_plans import BestPlans
from hetopt.solvers.mcts.data import SearchData
from hetopt.solvers.mcts.subtree import Subtree
from hetopt.solvers.race.messages import NO_CUTOFF, Payload, SurveyTask
from hetopt.solvers.race.programs import Programs

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.cost.table.slice import TableSlice
    from hetopt.solvers.bounds.by_count import Survey

#: Nodes of a tree.
_MOST_NODES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidedSpec:
    """What every worker gets at its start; ``exploration`` as in ``MctsParams``."""

    payload: Payload
    exploration: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitTask:
    """Search one (p, q) with a new tree.

    Attributes
    ----------
    visit
        How often this (p, q) was searched before; the random numbers depend on it.
    cutoff
        In 1 / PERIOD_SCALE ticks. It is not the one that processes share, which
        depends on their speed.
    bound
        Lower bound on the objective.
    narrow
        Whether to first remove the strategies that no plan within the cutoff uses.
        That takes longer the further the cutoff is from the bound.
    """

    microbatches: int
    stages: int
    visit: int
    iterations: int
    cutoff: int
    bound: int
    narrow: bool


def make(
    payload: GuidedSpec, shared: Any, say: Callable[[Any], None]
) -> Callable[[Any], Any]:
    """Return the function that runs tasks in this process."""
    return GuidedWorker(payload, shared, say).run


class GuidedWorker:
    """Surveys a q, or visits a (p, q)."""

    def __init__(
        self, spec: GuidedSpec, shared: Any, say: Callable[[Any], None]
    ) -> None:
        # Visits alternate between q, so what is made for each q is kept.
        self._programs = Programs(spec.payload, 0, keep_all=True)
        self._exploration = spec.exploration
        self._seed, self._top, self._say = spec.payload.seed, spec.payload.top, say

    def run(self, task: VisitTask | SurveyTask) -> int | Survey:
        """Return the survey of a q, or the lower bound of a visited (p, q)."""
        if isinstance(task, SurveyTask):
            relaxation = self._programs.relaxation(task.microbatches)
            return survey(relaxation, cutoff=None)
        return self._visit(task)

    def _visit(self, task: VisitTask) -> int:
        programs, bound = self._programs, task.bound
        part = programs.part(task.microbatches)
        if task.narrow and task.cutoff != NO_CUTOFF:
            narrowed = self._narrowed(task, part)
            if narrowed is None:
                return task.cutoff + 1
            part, least = narrowed
            bound = max(bound, least)
        search_data = SearchData(
            programs.table,
            [part],
            programs.problem.rules,
            [task.stages],
            guided=True,
        )
        if not search_data.stages:
            # The strategies left have no room for this many stages.
            return bound if task.cutoff == NO_CUTOFF else max(bound, task.cutoff + 1)
        tree = Subtree(
            search_data,
            task.stages,
            seed=[self._seed, task.microbatches, task.visit],
            exploration=self._exploration,
            most_nodes=_MOST_NODES,
            reference=max(bound, 1),
        )
        best_plans = BestPlans(self._top, self._say, task.cutoff)
        tree.iterate(task.iterations, best_plans.take, task.cutoff)
        return bound

    def _narrowed(
        self, task: VisitTask, part: TableSlice
    ) -> tuple[TableSlice, int] | None:
        """Return the strategies of plans within the cutoff, and a bound on the plans.

        None if there is no such plan.
        """
        # Rounded up: the relaxation adds up floating-point numbers.
        limit = ticks_above(task.cutoff)
        found = focus(
            self._programs.relaxation(task.microbatches),
            task.stages,
            cutoff=limit,
        )
        if found.bound > limit:
            return None
        keep = [np.asarray(kept, dtype=np.int64) for kept in found.keep]
        return restrict(part, keep), scaled_below(found.bound)
