"""What is known of each (p, q) while the least time is searched by paths."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.cost.table.ticks import TICK_S
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.schedule.closed_form import closed_form_ns
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.decisions.assembly import decision_of_plan, room_in_flight
from hetopt.solvers.decisions.pricer import Pricer
from hetopt.solvers.race.ledger import Ledger
from hetopt.solvers.race.messages import Found
from hetopt.solvers.simulated.warmups import best_warmups

if TYPE_CHECKING:
    from fractions import Fraction

    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Time
    from hetopt.solvers.race.ledger import Program


class SimulatedLedger(Ledger):
    """A ledger of simulated times: ties go to the least closed form.

    Of closed forms if these are paths, too.

    Attributes
    ----------
    first, most
        The limit that a search goes on from, and up to which it may be raised.
    is_started
        Whether the limit is that of the proven plan that a search starts from.
    improved
        Rounds of random changes to its first plan that ended (``improve_start``).
    surveyed
        Last limit in ns within which programs were bounded, by the width of
        intervals, q and the group of p (``SimulatedRace._together``).
    """

    objective: Time

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        *,
        top: int,
        limit: int,
        objective: Time = "simulated",
    ) -> None:
        super().__init__(problem, table, top=top, limit=limit, objective=objective)
        self.first = self.most = limit
        self.is_started, self.improved = False, 0
        self.surveyed: dict[tuple[float, int, int], int] = {}
        self._known: dict[Decision, Fraction] = {}
        self._pricer = Pricer(problem, table)

    @property
    def has_enough(self) -> bool:
        """Whether as many plans as are wanted are within the limit."""
        within = [each for each in self.ranked() if each.value <= self.limit]
        return len(within) >= self.top

    def take_bounds(self, known: SimulatedLedger) -> None:
        """Take the bounds of an earlier search of the same table."""
        for key, program in self.programs.items():
            other = known.programs[key]
            program.bound = max(program.bound, other.bound)
            if other.how == "infeasible":
                program.how = other.how
        self.surveyed, self.improved = known.surveyed, known.improved

    def find(self, found: Found) -> bool:
        """Record a plan if it is the best of its shape; return whether it is."""
        known = self.plans.get(found.decision.shape)
        if found.value > self.limit or (
            known is not None and self.rank(known) <= self.rank(found)
        ):
            return False
        self.plans[found.decision.shape] = found
        return True

    def seconds(self, program: Program) -> float:
        """Return the lower bound on the simulated time."""
        return program.bound / PERIOD_SCALE * TICK_S

    def start(self, plan: Plan) -> Found:
        """Simulate a plan, with the best warm-up counts if they are free."""
        found = self.as_planned(plan)
        if not rule_of(self.table.schedule).free:
            return found
        pipeline = plan.pipeline
        warmups = best_warmups(
            self._pricer.times(found.decision),
            room_in_flight(pipeline.stages, self.table, pipeline.microbatches),
            found.value // PERIOD_SCALE,
        )
        if warmups is None:
            return found
        return self.value_of(replace(found.decision, warmups=warmups))

    def as_planned(self, plan: Plan) -> Found:
        """Simulate a plan with its own warm-up counts."""
        q, stages = plan.pipeline.microbatches, plan.pipeline.stages
        warmups = tuple(min(stage.warmup, q) for stage in stages)
        decision = decision_of_plan(plan, self.table)
        if rule_of(self.table.schedule).free:
            decision = replace(decision, warmups=warmups)
        return self.value_of(decision)

    def value_of(self, decision: Decision) -> Found:
        """Simulate a decision, or take its closed form."""
        value = self._pricer.time_of(self.objective)(decision) * PERIOD_SCALE
        return Found(decision=decision, value=value)

    def rank(self, found: Found) -> tuple[object, ...]:
        """Return the sort key of a plan: its value, its closed form, the tie rule."""
        return (
            found.value,
            self._closed(found.decision),
            *found.decision.tie_key(self.table),
        )

    def _closed(self, decision: Decision) -> Fraction:
        if decision not in self._known:
            self._known[decision] = closed_form_ns(self._pricer.times(decision))
        return self._known[decision]
