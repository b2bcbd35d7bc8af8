"""All that a search is asked, checked before it begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from hetopt.errors import InputError
from hetopt.export.registry import launcher, limits_of, runs_any
from hetopt.problem.training.choices import ANY
from hetopt.problem.training.principles import PRUNED
from hetopt.results.per_schedule import USUAL_CHUNKS
from hetopt.results.spending import Spending
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.lengths.outcome import ensure_lengths, ensure_mixes
from hetopt.solvers.refusals import ensure_can, ensure_plans, ensure_races
from hetopt.solvers.registry import solver as solver_of
from hetopt.solvers.search.branchings.possible import ensure_several
from hetopt.solvers.search.branchings.schedules import (
    run_by,
    schedule_variants,
    under_any,
)
from hetopt.solvers.search.over import Over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.problem.training.principles import Principles
    from hetopt.solvers.search.branchings.fleets import Measure
    from hetopt.solvers.search.branchings.schedules import ScheduleVariant

#: The time that is minimised, or that a cost is of.
Time = Literal["closed", "simulated"]
#: Given as a launcher, it lifts the problem's.
NO_LAUNCHER = "none"
_LIFT = f"give {NO_LAUNCHER} as the launcher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is searched, and what is minimised.

    Attributes
    ----------
    problem
        As the user has it, under the schedule that is asked for.
    solver
        Searches every problem that this one is split into.
    time
        What is minimised; None: see ``hetopt.planning.objective``.
    measure
        The time itself, the cost of an iteration, or the front of time and price.
    budget, min_tokens_per_s
        See ``hetopt.results.spending.Spending``.
    chunks
        To try, if any schedule may be the plan's.
    pipelines
        Most pipelines side by side.
    launcher
        The launcher that has to run the plan; None: the problem's; ``none``: any.
    own_table
        Whether the user gives a latency table.
    stability
        Whether it is asked how far coefficients may move (``hetopt.whatif.stability``).
    certified
        Whether a certificate is wanted.
    """

    problem: Problem
    solver: str = "auto"
    time: Time | None = None
    measure: Measure = "time"
    budget: float | None = None
    min_tokens_per_s: float | None = None
    chunks: tuple[int, ...] = USUAL_CHUNKS
    pipelines: int = 1
    launcher: str | None = None
    principles: Principles = PRUNED
    top: int = 1
    own_table: bool = False
    stability: bool = False
    certified: bool = False

    @property
    def spends(self) -> bool:
        """Whether nodes are chosen by their prices."""
        return self.measure != "time" or self.budget is not None

    @property
    def schedules(self) -> bool:
        """Whether the best of all schedules is asked for."""
        return self.problem.training.any_schedule

    @property
    def schedule_names(self) -> tuple[ScheduleName, ...]:
        """Names of the schedules that the plan may have."""
        if not self.schedules:
            return (self.problem.training.schedule,)
        return tuple(dict.fromkeys(each.schedule for each in self._variants()))

    def _variants(self) -> tuple[ScheduleVariant, ...]:
        if not self.schedules:
            return ()
        return schedule_variants(self.problem, self.chunks)

    @property
    def target(self) -> str | None:
        """The launcher that plans are for, which may start any; None: none is named."""
        name = self.launcher or self.problem.launcher
        return None if name == NO_LAUNCHER else name

    @property
    def limiting(self) -> str | None:
        """The launcher that has to run the plan; None: there is no such limit.

        Raises
        ------
        InputError
            There is no launcher of this name, or plans are not searched for it.
        """
        name = self.target
        return None if name is None or runs_any(name) else name

    def ensure(self) -> None:
        """Raise InputError, in one line, for what cannot be searched."""
        for field, message in self._faults():
            raise InputError(message, field=field)

    def _faults(self) -> Iterator[tuple[str, str]]:
        """Yield the field and the fault of what cannot be asked for."""
        solver_of(self.solver, "solver")
        ensure_can(self.solver, self.principles)
        schedule = self.problem.training.schedule
        if self.time == "simulated" or (rule_of(schedule).free and not self.schedules):
            from hetopt.solvers.simulated.solver import ensure_can_simulate

            ensure_can_simulate(self.solver)
        if self.min_tokens_per_s is not None and self.measure == "time":
            yield (
                "min_tokens_per_s",
                "has no effect when time is minimised: use it with objective cost",
            )
        if self.measure == "front" and self.top > 1:
            yield "top", "has no meaning for a front, which has all plans of interest"
        if self.stability and self.measure == "front":
            yield "stability", "is of the best plan, and a front has many: leave it out"
        if self.stability and self.own_table:
            yield "table", "has no rows for what stability changes: leave it out"
        if self.schedules and self.solver == "uniap":
            yield "schedule", f"is {ANY}, but solver uniap plans only gpipe: give that"
        if self.certified:
            yield from self._certificate_faults()
        if self.own_table and (several := self._without_rows):
            yield "table", f"has no rows for {several}: leave it out"
        if self.spends:
            ensure_races(self.solver, self._spent_by)
        if (name := self.limiting) is not None:
            yield from self._launcher_faults(name)
        if not self.schedules:
            ensure_plans(self.solver, schedule, closed=self.time == "closed")
        if self.problem.training.lengths is not None:
            yield from self._length_faults()
        elif self.pipelines != 1:
            ensure_several(self.problem, self.solver, self.pipelines, self.principles)

    def _certificate_faults(self) -> Iterator[tuple[str, str]]:
        if self.measure == "front":
            yield "certified", "is of one result, but a front has many: leave it out"
        if self.limiting is not None:
            why = "does not say which plans a launcher can run: leave it out"
            yield "certified", f"{why}, or {_LIFT}"
        rule = rule_of(self.problem.training.schedule)
        limited = self.schedules or rule.interleaved or rule.splits
        if limited and (self.time == "simulated" or self.principles.relaxed):
            yield (
                "certified",
                "covers schedules with chunks or weight gradients only for the closed "
                "form with all principles kept: leave it out, or name another schedule",
            )

    def _length_faults(self) -> Iterator[tuple[str, str]]:
        ensure_lengths(self.problem, self.solver, self.pipelines)
        if not self.schedules:
            ensure_mixes(self.problem.training.schedule)
        why = "applies only if all sequences have one length: leave it out"
        if self.own_table:
            yield "table", why
        if self.limiting is not None:
            yield "launcher", f"{why}, or {_LIFT}"
        if self.certified:
            yield "certified", why

    @property
    def _spent_by(self) -> str:
        """What asks for a choice of nodes, as users write it."""
        if self.budget is not None:
            return "budget"
        return "objective cost" if self.measure == "cost" else "a front"

    @property
    def _without_rows(self) -> str | None:
        """What a table of the user's has no rows for; None if it has all."""
        if self.schedules:
            return "other schedules"
        if self.pipelines > 1:
            return "pipelines on some of the nodes"
        return "the launcher's ways of resharding" if self.limiting else None

    def _launcher_faults(self, name: str) -> Iterator[tuple[str, str]]:
        if not solver_of(self.solver).races:
            yield (
                "solver",
                f"is {self.solver}, which proves nothing about launchers' plans: "
                f"use dp, or {_LIFT}",
            )
        if self.principles.relaxed:
            yield "relax", f"is not asked of launchers' plans: leave it out, or {_LIFT}"
        if self.pipelines > 1 and launcher(name).side_by_side is not None:
            yield (
                "pipelines",
                f"is {self.pipelines}, but {name} runs several pipelines only "
                "with micro-batches of one size, for which they are not searched: "
                "leave it out",
            )

    def over(self) -> tuple[Problem, Over]:
        """Return the problem to begin with, and what to branch over.

        Raises
        ------
        InputError
            The launcher runs no plan of the problem, or no schedule is possible.
        """
        from hetopt.export.planning.limits import fitted, resharded
        from hetopt.export.planning.runnable import launchable

        problem, runs_on = self.problem, None
        runs = variants = self._variants()
        if (name := self.limiting) is not None:
            limits = limits_of(name)
            fit = resharded if self.schedules else fitted
            problem = fit(limits, problem)
            runs_on = launchable(name, problem)
            runs = run_by(variants, runs_on) if self.schedules else ()
        if self.schedules:
            problem = under_any(problem, runs)
        spending = None
        if self.spends:
            spending = Spending(
                budget=self.budget, min_tokens_per_s=self.min_tokens_per_s
            )
        return problem, Over(
            spending=spending,
            measure=self.measure,
            schedules=variants,
            pipelines=self.pipelines,
            lengths=problem.training.lengths is not None,
            launcher=runs_on,
        )

    def without_limits(self) -> Search:
        """Return the same search without the launcher."""
        return replace(self, launcher=NO_LAUNCHER, top=1)
