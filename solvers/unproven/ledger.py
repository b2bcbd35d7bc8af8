"""The ledger of searches without proof: heuristics and tree search.

They settle no (p, q). Besides plans, they report a lower bound on all plans of their
space: the survey with which the race begins, a quick bound on every q as a whole, or,
if P3 or P4 is relaxed and a survey takes longer than many heuristics, the bound by
device time.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.deadline import Stopped
from hetopt.base.interruption import check, released, requested
from hetopt.formulations.chain import Chain
from hetopt.formulations.scale import scaled_below
from hetopt.formulations.space import undominated
from hetopt.problem.training.principles import PRUNED
from hetopt.solvers.bounds.bound_q import BoundTask
from hetopt.solvers.bounds.by_count import survey
from hetopt.solvers.bounds.relaxation import Relaxation
from hetopt.solvers.decisions.copies import canonical
from hetopt.solvers.decisions.identical import leaders
from hetopt.solvers.race.first_plan import ensure_plan
from hetopt.solvers.race.ledger import Ledger
from hetopt.solvers.race.messages import (
    NO_CUTOFF,
    Found,
    Payload,
    SurveyTask,
    cutoff_of,
)
from hetopt.solvers.race.outcome import result_of
from hetopt.solvers.race.q_order import QOrder
from hetopt.solvers.race.worker import Worker
from hetopt.solvers.refusals import ensure_can, ensure_plans
from hetopt.solvers.registry import OWN, SOLVERS

if TYPE_CHECKING:
    from hetopt.formulations.decision import Decision
    from hetopt.results.result import Result
    from hetopt.solvers.bounds.by_count import Survey
    from hetopt.solvers.request import Request

#: Share of the time limit that bounds may take before a tree search begins.
_SHARE = 0.05


class UnprovenLedger(Ledger):
    """The plans of one search, and bounds on all plans of its space.

    Parameters
    ----------
    solver
        Its name; its record, if it has one, names the space.

    Raises
    ------
    InputError
        If the solver does not support the schedule or a relaxed principle.
    """

    def __init__(self, request: Request, solver: str) -> None:
        ensure_can(solver, request.params.principles)
        ensure_plans(solver, request.problem.training.schedule)
        super().__init__(
            request.problem,
            request.table,
            top=request.params.top,
            limit=cutoff_of(request.cutoff_s),
        )
        record = SOLVERS.get(solver) or OWN.find(solver)
        self.request, self.solver = request, solver
        self.principles = PRUNED if record is None else record.space
        self.leaders = lru_cache(maxsize=None)(self._leaders)

    def _leaders(self, microbatches: int) -> tuple[int, ...]:
        part = self.table.at(microbatches)
        return leaders(self.table, part, self.request.problem.rules, self.principles)

    def canonical(self, found: Found) -> Found:
        """Return the canonical copy of a plan, the same for all of its copies."""
        groups = self.leaders(found.decision.microbatches)
        return replace(found, decision=canonical(found.decision, groups))

    def offered(self, decision: Decision, value: int) -> Found:
        """Return a priced decision as its canonical copy."""
        return self.canonical(Found(decision=decision, value=value))

    def check_time(self) -> None:
        """Raise Stopped when time is up, KeyboardInterrupt if the user interrupts."""
        check()
        if self.request.deadline.is_over():
            raise Stopped

    def is_interrupted(self) -> bool:
        """Whether the user has interrupted."""
        return requested() is not None

    def take_survey(self, microbatches: int, found: Survey) -> None:
        """Record the bounds on every p of one q."""
        for program in self.open():
            if program.microbatches != microbatches:
                continue
            bound = float(found.bound[program.stages])
            if np.isfinite(bound):
                program.bound = max(program.bound, scaled_below(bound))
            else:
                program.how = "infeasible"

    def survey(self) -> None:
        """Bound every (p, q) as the race does, unless principles are relaxed.

        Raises
        ------
        Stopped
            The time is up; the bounds so far are kept.
        """
        if self.principles.relaxed:
            return
        problem, table, chain = self.request.problem, self.table, Chain.of(self.table)
        for q in self._counts():
            self.check_time()
            relaxation = Relaxation(
                table=table,
                part=undominated(table, table.at(q), chain),
                chain=chain,
                pins=problem.rules,
                most_stages=max(p for p in problem.stage_counts if p <= chain.length),
            )
            self.take_survey(q, survey(relaxation, cutoff=None))

    def glance(self) -> None:
        """Bound every q quickly, for at most ``_SHARE`` of the time limit."""
        request, order = self.request, None
        if Chain.of(self.table).is_uniform:
            order = QOrder(self)
        payload = Payload(
            problem=request.problem,
            table=self.table,
            engine="hetopt.solvers.dp.solver:DpEngine",
            seed=0,
            top=1,
        )
        shared = SimpleNamespace(value=NO_CUTOFF)
        worker = Worker(payload, shared, lambda found: None)
        limit_s = request.deadline.limit_s
        for q in self._counts():
            if limit_s is not None and request.deadline.elapsed_s() > _SHARE * limit_s:
                return
            task = SurveyTask(microbatches=q, cutoff=None)
            glance = BoundTask(microbatches=q)
            with released():
                found = worker.run(task if order is None else glance)
            if order is None:
                self.take_survey(q, found)
            else:
                order.take(glance, found)

    def _counts(self) -> list[int]:
        return sorted({program.microbatches for program in self.open()})

    def result(self, *, ended: bool) -> Result:
        """Check and price what was found.

        If the plan meets the bound, the gap is 0, but the status stays feasible: the
        tie rule has not chosen among the plans that meet it.

        Parameters
        ----------
        ended
            Whether the search has tried everything that it can.
        """
        request = self.request
        result = result_of(
            self,
            request.problem,
            self.table,
            solver=self.solver,
            principles=self.principles,
            search_time_s=request.deadline.elapsed_s(),
        )
        if result.status == "optimal":
            return replace(result, status="feasible")
        if result.status == "unknown" and ended and not self.is_settled:
            plan = "plan" if request.cutoff_s is None else "plan within the cutoff"
            reason = (
                f"{self.solver} found no {plan}; there may be one (solver dp can "
                "decide)"
            )
            return replace(result, reason=reason)
        return result

    def ensure_plan(self) -> None:
        """Find a plan of one strategy if there is none."""
        ensure_plan(self, self.request.problem)
