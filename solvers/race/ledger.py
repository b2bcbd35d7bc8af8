"""What the race knows: every (p, q) with its bound, and the plans found so far."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from hetopt.cost.table.ticks import TICK_S
from hetopt.formulations.chain import Chain
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.pricing.price import pipeline_times
from hetopt.solvers.decisions.assembly import bound_seconds, plan_of, value_of
from hetopt.solvers.progress import Progress
from hetopt.solvers.race.device_time import least_values
from hetopt.solvers.race.messages import NO_CUTOFF, Found, RelaxedPlanTask, Verdict

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Time
    from hetopt.results.settlement import How

#: What a race may be given in its memory: that of a race whose bounds hold, too.
WIDER = "wider"


@dataclass(slots=True)
class Program:
    """What is known of one (p, q).

    Attributes
    ----------
    bound
        Valid lower bound on the objective, in 1 / PERIOD_SCALE ticks.
    period
        Lambda at which the relaxation attains the bound, in ns.
    how
        How it was settled; None while it is open.
    searched
        Whether an engine may have searched it: then more than bounds were used.
    """

    stages: int
    microbatches: int
    bound: int = 0
    period: float = np.inf
    how: How | None = None
    searched: bool = False

    @property
    def rank(self) -> tuple[int, int, int]:
        """Sort key that puts the best bound first."""
        return (self.bound, self.stages, self.microbatches)

    @property
    def relaxed_plan(self) -> RelaxedPlanTask:
        """Task that turns its relaxed optimum into plans."""
        return RelaxedPlanTask(
            microbatches=self.microbatches, stages=self.stages, period=self.period
        )

    def holds(self, found: Found) -> bool:
        """Whether a plan has this p and q."""
        decision = found.decision
        return (decision.stages, decision.microbatches) == (
            self.stages,
            self.microbatches,
        )


class Ledger:
    """Programs, plans and the cutoff.

    Every program is bounded by device time from the start.

    Parameters
    ----------
    top
        How many best plans are wanted.
    limit
        Objective above which plans are of no interest, or NO_CUTOFF.
    objective
        Which time values and bounds are of; None: what programs minimise, which for
        several chunks is an estimate, to start from.
    """

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        *,
        top: int,
        limit: int,
        objective: Time | None = None,
    ) -> None:
        estimated = table.chunks > 1 and table.layout is None
        self.objective: Time | Literal["estimate"] = objective or (
            "estimate" if estimated else "closed"
        )
        self.table = table
        self.top = top
        self.limit = limit
        self.plans: dict[tuple[object, ...], Found] = {}
        #: Whether ``first_plan`` has been called.
        self.looked_at_once = False
        # Cache of the tie rule's sort keys: a plan and its key, by shape.
        self._ranks: dict[tuple[object, ...], tuple[Found, tuple[object, ...]]] = {}
        self.programs: dict[tuple[int, int], Program] = {}
        length = Chain.of(table).length
        least = least_values(table, closed=self.objective != "simulated")
        for p, q in problem.programs:
            program = Program(stages=p, microbatches=q, bound=least.get(q, 0))
            if q not in least or (p > length and table.layout is None):
                program.how = "infeasible"
            self.programs[p, q] = program

    def reopen(self, limit: int) -> None:
        """Go on after a search that stopped, with a limit that is no larger."""
        self.limit = limit
        self.plans = {
            shape: found for shape, found in self.plans.items() if found.value <= limit
        }
        for program in self.programs.values():
            if program.how == "unsettled":
                program.how = None
        self.refute()

    def doubt(self) -> None:
        """Leave open what a limit refutes that was too small for enough plans."""
        for program in self.programs.values():
            if program.how in ("refuted-by-bound", "refuted-by-search"):
                program.how = "unsettled"

    def bound_by(self, wider: Ledger) -> None:
        """Take the bounds of a race that hold for all plans of this one, too."""
        for key, program in self.programs.items():
            other = wider.programs.get(key)
            if other is None or other.searched:
                continue
            program.bound = max(program.bound, other.bound)
            if other.how == "infeasible":
                program.how = other.how
        self.refute()

    def open(self) -> list[Program]:
        """Return the programs that are not settled."""
        return [program for program in self.programs.values() if program.how is None]

    @property
    def is_settled(self) -> bool:
        """Whether something is proven of every program: none was left unsettled."""
        return all(
            program.how not in (None, "unsettled") for program in self.programs.values()
        )

    @property
    def cutoff(self) -> int:
        """Objective of the ``top``-th best plan; ``limit`` while there are fewer."""
        ranked = self.ranked()
        if len(ranked) < self.top:
            return self.limit
        return min(self.limit, ranked[-1].value)

    def ranked(self) -> list[Found]:
        """Return the best plans of different shapes, by the tie rule; at most top."""

        def rank(item: tuple[tuple[object, ...], Found]) -> tuple[object, ...]:
            shape, found = item
            known = self._ranks.get(shape)
            if known is None or known[0] is not found:
                known = self._ranks[shape] = (found, self.rank(found))
            return known[1]

        best = heapq.nsmallest(self.top, self.plans.items(), key=rank)
        return [found for _, found in best]

    def rank(self, found: Found) -> tuple[object, ...]:
        """Return the sort key of a plan: its value, then the tie rule."""
        return (found.value, *found.decision.tie_key(self.table))

    def value_of(self, decision: Decision) -> Found:
        """Price a decision."""
        plan = plan_of(decision, self.table, "")
        value = value_of(pipeline_times(plan, self.table))
        return Found(decision=decision, value=value)

    def find(self, found: Found) -> bool:
        """Add a plan if it is the best of its shape; return whether it was added."""
        known = self.plans.get(found.decision.shape)
        if found.value > self.limit or (known and found.value >= known.value):
            return False
        self.plans[found.decision.shape] = found
        return True

    def best_of(self, program: Program) -> Decision | None:
        """Return the best known plan of one program, if any."""
        own = [found for found in self.plans.values() if program.holds(found)]
        best = min(own, key=lambda found: found.value, default=None)
        return None if best is None else best.decision

    def has_best(self, program: Program) -> bool:
        """Whether a known plan within the cutoff takes no more than the bound."""
        most = min(program.bound, self.cutoff)
        return any(
            program.holds(found) and found.value <= most
            for found in self.plans.values()
        )

    def refute(self) -> None:
        """Settle the open programs whose bound exceeds the cutoff."""
        cutoff = self.cutoff
        for program in self.open():
            if program.bound > cutoff:
                # Without a cutoff, the bound exceeds the longest time of any plan.
                none = cutoff == NO_CUTOFF
                program.how = "infeasible" if none else "refuted-by-bound"

    def settle(self, program: Program, verdict: Verdict) -> None:
        """Record the verdict of a search on a program."""
        program.bound = max(program.bound, verdict.bound)
        program.searched |= verdict.searched or not verdict.closed
        cutoff = self.cutoff
        if not verdict.closed:
            program.how = "unsettled"
        elif self.has_best(program):
            program.how = "solved"
        elif cutoff == NO_CUTOFF:
            program.how = "infeasible"
        else:
            program.how = (
                "refuted-by-search" if verdict.searched else "refuted-by-bound"
            )
        self.refute()

    def bound_s(self) -> float | None:
        """Return the bound over all programs in seconds; None if all are infeasible."""
        bounds = [
            self.seconds(program)
            for program in self.programs.values()
            if program.how != "infeasible"
        ]
        return min(bounds) if bounds else None

    def progress(self, elapsed_s: float) -> Progress:
        """Return the progress of the search."""
        ranked = self.ranked()
        incumbent_s = ranked[0].value / PERIOD_SCALE * TICK_S if ranked else None
        bound_s, gap = self.bound_s(), None
        if incumbent_s is not None and bound_s is not None:
            bound_s = min(bound_s, incumbent_s)
            gap = (incumbent_s - bound_s) / incumbent_s
        return Progress(
            elapsed_s=elapsed_s,
            incumbent_s=incumbent_s,
            bound_s=bound_s,
            gap=gap,
            settled=len(self.programs) - len(self.open()),
            programs=len(self.programs),
        )

    def seconds(self, program: Program) -> float:
        """Return a program's bound as a lower bound on the objective in seconds."""
        return max(
            0.0, bound_seconds(program.bound, program.microbatches * self.table.chunks)
        )
