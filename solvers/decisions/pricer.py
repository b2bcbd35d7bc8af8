"""The exact objective of any decision on a problem, if it is a plan."""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING

from hetopt.formulations.chain import Chain
from hetopt.formulations.permitted import Permitted
from hetopt.formulations.program import ProgramData
from hetopt.pricing.price import pipeline_times
from hetopt.schedule.closed_form import closed_form_ns
from hetopt.schedule.paths import path_bound_ns
from hetopt.schedule.run import simulate
from hetopt.solvers.decisions.assembly import plan_of
from hetopt.solvers.decisions.exact import exact_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.problem.problem import Problem
    from hetopt.schedule.times import PipelineTimes


class Pricer:
    """Prices decisions of one problem, if they keep to its pins and fit into memory."""

    def __init__(self, problem: Problem, table: CostTable) -> None:
        self.problem = problem
        self.table = table
        self.chain = Chain.of(table)
        self.programs = frozenset(problem.programs)
        self.permitted = Permitted.of(problem.rules, table.cluster_names)
        self.data = lru_cache(maxsize=None)(self._data)

    def value(self, decision: Decision) -> int | None:
        """Return the objective in 1 / PERIOD_SCALE ticks; None if infeasible."""
        p, q = decision.stages, decision.microbatches
        if not (self.permitted.permits(decision) and self.problem.has_program(p, q)):
            return None
        return exact_value(decision, self.data(q, p))

    def times(self, decision: Decision) -> PipelineTimes:
        """Return the times of a decision's pipeline."""
        return pipeline_times(plan_of(decision, self.table, ""), self.table)

    def simulated_ns(self, decision: Decision, most: int | None = None) -> int:
        """Return the simulated time of a decision's pipeline.

        If a path alone takes more than ``most``, its time.
        """
        times = self.times(decision)
        if most is not None and (bound := path_bound_ns(times)) > most:
            return bound
        return simulate(times).makespan_ns

    def closed_ns(self, decision: Decision, most: int | None = None) -> int:
        """Return the closed form of a pipeline of several chunks, whatever ``most``."""
        return ceil(closed_form_ns(self.times(decision)))

    def time_of(self, objective: str) -> Callable[..., int]:
        """Return what gives a decision's simulated time, or its closed form."""
        return self.simulated_ns if objective == "simulated" else self.closed_ns

    def _data(self, microbatches: int, stages: int) -> ProgramData:
        table = self.table
        return ProgramData.of(
            table,
            table.at(microbatches),
            self.chain,
            self.problem.rules,
            stages=stages,
            cutoff=0,
        )
