"""All that a search is asked, checked before it begins."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from pydantic import InstanceOf

from hetopt.base.fields import Count, Positive, Whole
from hetopt.base.record import record
from hetopt.base.words import encodable
from hetopt.cost.table.table import CostTable
from hetopt.errors import InputError
from hetopt.export.registry import limits_of, runs_any
from hetopt.plans.plan import MOST_PIPELINES
from hetopt.problem.problem import Problem
from hetopt.problem.training.choices import ANY
from hetopt.problem.training.principles import PRUNED, Principles
from hetopt.results.claims import Measure
from hetopt.results.result import Time
from hetopt.results.spending import Spending
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.lengths.outcome import ensure_lengths, ensure_mixes
from hetopt.solvers.params import Cost, Executor
from hetopt.solvers.refusals import (
    ensure_can,
    ensure_can_simulate,
    ensure_plans,
    ensure_races,
    ensure_samples,
)
from hetopt.solvers.registry import solver as solver_of
from hetopt.solvers.search.branchings.possible import ensure_several
from hetopt.solvers.search.branchings.schedules import (
    chunks_to_try,
    run_by,
    schedule_variants,
    under_any,
)
from hetopt.solvers.search.over import Over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.problem.training.choices import ScheduleName
    from hetopt.results.claims import Json
    from hetopt.solvers.search.branchings.schedules import ScheduleVariant

#: Given as a launcher, it lifts the problem's.
NO_LAUNCHER = "none"
_LIFT = f"give {NO_LAUNCHER} as the launcher"


@record
class Search:
    """What is searched, what is minimised, and how.

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
    budget
        See ``hetopt.results.spending.Spending``.
    min_tokens_per_s
        See ``hetopt.results.spending.Spending``.
    chunks
        As the user gives them; those to try, if any schedule may be the plan's.
    pipelines
        Most pipelines side by side.
    launcher
        The launcher that has to run the plan; None: the problem's; ``none``: any.
    principles
        Those that the plan has to keep.
    top
        How many plans are returned.
    table
        The user's latency table, or the path of its file.
    stability
        Whether it is asked how far coefficients may move.
    certified
        Whether a certificate is wanted.
    time_limit_s
        Of all searches together.
    jobs
        See ``RaceParams``.
    executor
        See ``RaceParams``.
    journal
        See ``RaceParams``.
    seed
        Of random choices.
    exploration
        See ``MctsParams``.
    iterations
        See ``MctsParams``.
    cost
        See ``DfsParams``.
    name
        What the user calls the problem.
    schedule
        The schedule instead of the problem's own, if any.

    Raises
    ------
    InputError
        This cannot be searched; it names the field.
    """

    problem: InstanceOf[Problem]
    solver: str = "auto"
    time: Time | None = None
    measure: Measure = "time"
    budget: Positive | None = None
    min_tokens_per_s: Positive | None = None
    chunks: tuple[int, ...] | None = None
    pipelines: int = 1
    launcher: str | None = None
    principles: InstanceOf[Principles] = PRUNED
    top: Count = 1
    table: InstanceOf[CostTable] | str | None = None
    stability: bool = False
    certified: bool = False
    time_limit_s: Positive | None = None
    jobs: Count | None = None
    executor: Executor = "process"
    journal: str | None = None
    seed: Whole = 0
    exploration: float | None = None
    iterations: int | None = None
    cost: Cost | None = None
    name: str | None = None
    schedule: str | None = None

    def __post_init__(self) -> None:
        """Raise InputError, in one line, for what cannot be searched."""
        for field, message in self._faults():
            raise InputError(message, field=field)

    def to_json(self) -> Json:
        """Return the options of ``hetopt plan`` that ask for this, but usual ones."""
        usual = {field.name: field.default for field in fields(self)}
        options = {
            "problem": self.name,
            "objective": "cost" if self.measure == "cost" else self.time,
            "pareto": self.measure == "front" or None,
            "chunks": None if self.chunks is None else list(self.chunks),
            "relax": ",".join(self.principles.relaxed) or None,
            "table": self.table if isinstance(self.table, str) else None,
            "time_limit": self.time_limit_s,
        }
        for name in _AS_THEY_ARE:
            value = getattr(self, name)
            options[name] = None if value == usual[name] else value
        written = {name: each for name, each in options.items() if each is not None}
        # Names of files may be any bytes.
        return {k: v for k, v in written.items() if encodable(str(v)) == str(v)}

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

    @property
    def _searched(self) -> ScheduleName:
        """The problem's schedule, or the launcher's first if it does not run that."""
        own = self.problem.training.schedule
        runs = limits_of(self.limiting).schedules if self.limiting else ()
        return runs[0] if runs and own not in runs else own

    def _variants(self) -> tuple[ScheduleVariant, ...]:
        if not self.schedules:
            return ()
        return schedule_variants(self.problem, chunks_to_try(self.chunks))

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

    def _faults(self) -> Iterator[tuple[str, str]]:
        """Yield the field and the fault of what cannot be asked for."""
        yield from self._solver_faults()
        is_free = rule_of(self._searched).free and not self.schedules
        if self.time == "simulated" or is_free:
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
        if self.stability and self._has_table:
            yield "table", "has no rows for what stability changes: leave it out"
        if self.schedules:
            chunks_to_try(self.chunks)
            if self.solver == "uniap":
                why = "but solver uniap plans only gpipe: give that"
                yield "schedule", f"is {ANY}, {why}"
        if self.certified:
            yield from self._certificate_faults()
        if self._has_table and (several := self._without_rows):
            yield "table", f"has no rows for {several}: leave it out"
        if (name := self.limiting) is not None:
            yield from self._launcher_faults(name)
        if self.principles.sharing != "one":
            yield from self._sharing_faults()
        if not self.schedules:
            ensure_plans(self.solver, self._searched, closed=self.time == "closed")
        if not 1 <= self.pipelines <= MOST_PIPELINES:
            yield "pipelines", f"is {self.pipelines}, expected 1 to {MOST_PIPELINES}"
        if self.problem.training.lengths is not None:
            yield from self._length_faults()
        elif self.pipelines != 1:
            ensure_several(
                self.problem,
                self.solver,
                self.pipelines,
                self.principles,
                schedule=None if self.schedules else self._searched,
                spends=self.spends,
            )

    def _solver_faults(self) -> Iterator[tuple[str, str]]:
        """Yield what is not for this solver."""
        solver_of(self.solver, "solver")
        for field, given in (
            ("certified", self.certified),
            ("journal", self.journal is not None),
            ("executor", self.executor != "process"),
            ("stability", self.stability),
            ("pareto", self.measure == "front"),
            ("objective cost", self.measure == "cost"),
            ("budget", self.budget is not None),
        ):
            if given:
                ensure_races(self.solver, field)
        for field in ("iterations", "exploration"):
            if getattr(self, field) is not None:
                ensure_samples(self.solver, field)
        if self.cost is not None and self.solver != "dfs":
            why = f"solver {self.solver} minimises the closed form: this is for dfs"
            yield "cost", why
        ensure_can(self.solver, self.principles)

    def _sharing_faults(self) -> Iterator[tuple[str, str]]:
        for cluster in self.problem.clusters:
            if cluster.domain is not None and cluster.several_domains:
                yield (
                    "relax",
                    f"lets stages differ in size, but {cluster.name} has domains of "
                    f"{cluster.domain.nodes} nodes, and nobody knows which stages lie "
                    "in one: give each domain a cluster of its own, or leave p4 out",
                )

    def _certificate_faults(self) -> Iterator[tuple[str, str]]:
        if self.measure == "front":
            yield "certified", "is of one result, but a front has many: leave it out"
        rule = rule_of(self._searched)
        limited = self.schedules or rule.interleaved or rule.splits
        if limited and self.principles.relaxed:
            yield (
                "certified",
                "covers schedules with chunks or weight gradients only with all "
                "principles kept: leave it out, or name another schedule",
            )

    def _length_faults(self) -> Iterator[tuple[str, str]]:
        ensure_lengths(self.problem, self.solver)
        if not self.schedules:
            ensure_mixes(self.problem.training.schedule)
        why = "applies only if all sequences have one length: leave it out"
        if self._has_table:
            yield "table", why
        if self.target is not None:
            yield "launcher", f"{why}, or {_LIFT}"
        if self.certified:
            yield "certified", why

    @property
    def _has_table(self) -> bool:
        return self.table is not None

    @property
    def _without_rows(self) -> str | None:
        """What a table of the user's has no rows for; None if it has all."""
        if self.schedules:
            return "other schedules"
        if self.pipelines > 1:
            return "pipelines on some of the nodes"
        return "the launcher's ways of resharding" if self.limiting else None

    def _launcher_faults(self, name: str) -> Iterator[tuple[str, str]]:
        from hetopt.export.planning.runnable import not_relaxed

        if not solver_of(self.solver).races:
            yield (
                "solver",
                f"is {self.solver}, which proves nothing about launchers' plans: "
                f"use dp, or {_LIFT}",
            )
        runs = limits_of(name).schedules
        if runs and self.schedule not in (None, ANY, *runs):
            yield (
                "schedule",
                f"the launcher runs {', '.join(runs)}, not {self.schedule}",
            )
        if self.principles.relaxed and (why := not_relaxed(name, self.problem)):
            yield "relax", f"{why}: leave it out, or {_LIFT}"

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
            runs = run_by(variants, name, runs_on.passed_over) if self.schedules else ()
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
        # Warm-up counts are free in one pipeline alone.
        free = rule_of(self.problem.training.schedule).free and not self.schedules
        return replace(
            self,
            launcher=NO_LAUNCHER,
            pipelines=1 if free else self.pipelines,
            top=1,
            journal=None,
            certified=False,
        )


#: Fields that are options of ``hetopt plan`` as they are.
_AS_THEY_ARE = (
    *("solver", "budget", "min_tokens_per_s", "schedule", "pipelines", "launcher"),
    *("top", "stability", "jobs", "executor", "seed", "exploration", "iterations"),
    "cost",
)
