"""A comparison of solvers as plain data: what each found, and when.

An *optimum* is a closed form that some solver of the comparison has proven optimal.
Spaces of plans differ: a heuristic that need not keep all principles may find a plan
better than any of the pruned space, and is compared with the optimum of its own space.
If no optimum is proven, the best plan known is used instead, and labelled so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import MinLen

from hetopt.base.fields import Count, Digest, Positive, Seconds, Whole
from hetopt.base.file_record import ASIDE, LATER, FileRecord
from hetopt.planning.side_by_side import Outcome, Run, Space
from hetopt.plans.plan import Plan
from hetopt.problem.training.choices import AskedSchedule
from hetopt.problem.training.principles import Relaxable
from hetopt.results.money import Cost
from hetopt.results.settlement import OPTIMALITY_GAP

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hetopt.planning.side_by_side import Improvement

#: Shares above the optimum; the time of the first plan within each is reported.
WITHIN: Mapping[str, float] = {"5%": 0.05, "1%": 0.01, "0.1%": 0.001}
#: Marks the name of a solver whose space is wider than P1 to P4.
MARK = "†"
#: Relative difference of closed forms that counts as rounding.
_SAME = 1e-9
#: Share of its cores that other programs may take without slowing a run much.
MOST_TAKEN = 0.1
_SHARINGS = ("one", "falling-tp", "any")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference(FileRecord):
    """The value that plans of one space are compared with.

    Attributes
    ----------
    proven
        Whether it is an optimum; else the best plan known.
    solver
        The solver that proved it, or found it.
    lower_bound_s
        Greatest known lower bound of the space.
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        *("relaxed", "every_cluster", "value_s", "proven", "solver", "lower_bound_s"),
    )

    space: Annotated[Space, ASIDE]
    value_s: Seconds
    proven: bool
    solver: str
    lower_bound_s: Seconds | None

    @property
    def relaxed(self) -> tuple[Relaxable, ...]:
        """Principles that plans of the space need not keep."""
        return self.space.principles.relaxed

    @property
    def every_cluster(self) -> Annotated[bool, LATER]:
        """Whether only plans with stages on each cluster count."""
        return self.space.every_cluster

    @property
    def label(self) -> str:
        """The kind of value and its space, in a few words."""
        what = "proven optimum" if self.proven else "best known (not proven)"
        return f"{what}{self.space.label}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """All runs on one problem.

    Attributes
    ----------
    runs
        Runs of the solvers that were asked for.
    extra
        Runs of ``dp`` on spaces whose optimum no other run proved or could prove. They
        start from the best plan of the others, so their times are not comparable.
    """

    problem: str
    digest: str
    schedule: AskedSchedule
    runs: tuple[Run, ...]
    extra: tuple[Run, ...] = ()

    @property
    def every(self) -> tuple[Run, ...]:
        """All runs, in the order of the report."""
        return (*self.runs, *self.extra)

    def compared(self) -> ComparedProblem:
        """Return the problem and its runs as they are in files."""
        return ComparedProblem(
            problem=self.problem,
            problem_digest=self.digest,
            schedule=self.schedule,
            references=tuple(self.references().values()),
            runs=tuple(rows(self)),
        )

    def references(self) -> dict[Space, Reference]:
        """Return the reference of every space of a run with a plan."""
        spaces = dict.fromkeys(
            run.entry.space for run in self.every if run.closed_form_s is not None
        )
        found = {space: reference(self.every, space) for space in spaces}
        return {space: each for space, each in found.items() if each is not None}

    def findings(self) -> list[str]:
        """Return one line for every run that broke, and every contradiction."""
        broken = [
            f"{self.problem}: {run.entry.label}: {run.failure}"
            for run in self.every
            if run.broken
        ]
        return broken + [
            f"{self.problem}: {run.entry.label} found {run.closed_form_s!r} s, less "
            f"than what {other.entry.solver} says no plan takes"
            f"{other.entry.space.label}, {least_s!r} s"
            for other in self.every
            if (least_s := _least_s(other)) is not None
            for run in self.every
            if run.closed_form_s is not None
            and holds(other.entry.space, run.entry.space)
            and run.closed_form_s < least_s * (1 - OPTIMALITY_GAP)
        ]


def _least_s(run: Run) -> float | None:
    """Return the lower bound of its space that a run claims."""
    return run.closed_form_s if run.status == "optimal" else run.lower_bound_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(FileRecord):
    """What ``hetopt compare`` writes: problems, each with the runs of all solvers.

    Attributes
    ----------
    machine
        The machine, in words.
    warm_up_s
        Seconds of the first run, which compiles and is not counted; by solver and what
        it relaxes.
    """

    SCHEMA: ClassVar[str] = "hetopt-comparison/1"
    KEYS: ClassVar[tuple[str, ...]] = (
        *("machine", "time_limit_s", "jobs", "warm_up_s", "problems"),
    )

    machine: str
    time_limit_s: Positive
    jobs: Count | None
    warm_up_s: Mapping[str, Seconds]
    contests: Annotated[tuple[Contest, ...], ASIDE]

    def findings(self) -> list[str]:
        """Return one line for every run that broke, and every contradiction."""
        return [line for contest in self.contests for line in contest.findings()]

    @property
    def problems(self) -> Annotated[tuple[ComparedProblem, ...], MinLen(1)]:
        """The problems, as in the file."""
        return tuple(each.compared() for each in self.contests)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedProblem(FileRecord):
    """All runs on one problem, in a file."""

    problem: str
    problem_digest: Digest
    schedule: AskedSchedule
    references: tuple[Reference, ...]
    runs: Annotated[tuple[Row, ...], MinLen(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(FileRecord):
    """The reported values of one run; times in seconds, None if there is none.

    Attributes
    ----------
    seed
        None if the solver uses no random numbers.
    extra
        Run only for its optimum, which others are measured by.
    trace
        Seconds since the search began, closed form in seconds.
    within_s
        When a plan so close to the reference was known, by the names of ``WITHIN``.
    proof_s
        When the search ended with a proof of optimality.
    taken_share
        Most that other programs can have taken of the cores' time that it could use.
    above
        Share by which the plan is above the reference of its space.
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        *("solver", "seed", "relaxed", "every_cluster", "extra", "status"),
        *("closed_form_s", "iteration_time_s", "cost", "above", "first_s", "within_s"),
        *("proof_s", "lower_bound_s", "gap", "search_time_s", "process_time_s"),
        *("taken_share", "failure", "trace", "plan"),
    )

    problem: Annotated[str, ASIDE]
    solver: str
    seed: Whole | None
    space: Annotated[Space, ASIDE]
    extra: bool
    status: Outcome
    closed_form_s: Seconds | None
    iteration_time_s: Seconds | None
    cost: Cost | None = None
    above: float | None
    reference: Annotated[Reference | None, ASIDE]
    first_s: Seconds | None
    within_s: Mapping[str, Seconds | None]
    proof_s: Seconds | None
    lower_bound_s: Seconds | None
    gap: float | None
    search_time_s: Seconds | None
    process_time_s: Seconds
    taken_share: Annotated[float | None, LATER]
    failure: str | None
    trace: tuple[tuple[Seconds, Seconds], ...]
    plan: Plan | None

    @property
    def relaxed(self) -> tuple[Relaxable, ...]:
        """Principles that its plans need not keep."""
        return self.space.principles.relaxed

    @property
    def every_cluster(self) -> Annotated[bool, LATER]:
        """Whether only plans with stages on each cluster count."""
        return self.space.every_cluster

    @property
    def marked(self) -> bool:
        """Whether its space is wider than the pruned space."""
        return bool(self.relaxed)


def rows(contest: Contest) -> list[Row]:
    """Return one row for every run."""
    references = contest.references()
    return [
        _row(contest, run, references.get(run.entry.space)) for run in contest.every
    ]


def reference(runs: Iterable[Run], space: Space) -> Reference | None:
    """Return the proven optimum of a space, else the best plan known in it."""
    every = list(runs)
    inside = [
        run
        for run in every
        if run.closed_form_s is not None and holds(space, run.entry.space)
    ]
    proven = [
        run for run in inside if run.status == "optimal" and run.entry.space == space
    ]
    best = min(proven or inside, key=lambda run: run.closed_form_s or 0.0, default=None)
    if best is None or best.closed_form_s is None:
        return None
    # A bound on a wider space is also one on this space.
    bounds = [
        run.lower_bound_s
        for run in every
        if run.lower_bound_s is not None and holds(run.entry.space, space)
    ]
    return Reference(
        space=space,
        value_s=best.closed_form_s,
        proven=bool(proven),
        solver=best.entry.solver,
        lower_bound_s=min(max(bounds), best.closed_form_s) if bounds else None,
    )


def holds(wide: Space, narrow: Space) -> bool:
    """Whether every plan of ``narrow`` is one of ``wide``."""
    some, few = wide.principles, narrow.principles
    return (
        (few.consecutive or not some.consecutive)
        and _SHARINGS.index(few.sharing) <= _SHARINGS.index(some.sharing)
        and (narrow.every_cluster or not wide.every_cluster)
    )


def first_within(
    trace: Sequence[Improvement], value_s: float, share: float
) -> float | None:
    """Return when a plan at most ``share`` above ``value_s`` was known."""
    limit_s = value_s * (1 + share) * (1 + _SAME)
    return next(
        (each.elapsed_s for each in trace if each.closed_form_s <= limit_s), None
    )


def _row(contest: Contest, run: Run, known: Reference | None) -> Row:
    entry, extra = run.entry, run in contest.extra
    trace = () if extra else run.trace
    above = None
    if known is not None and run.closed_form_s is not None:
        above = run.closed_form_s / known.value_s - 1
    return Row(
        problem=contest.problem,
        solver=entry.solver,
        seed=entry.seed,
        space=entry.space,
        extra=extra,
        status=run.outcome,
        closed_form_s=run.closed_form_s,
        iteration_time_s=run.iteration_time_s,
        cost=run.cost,
        above=above,
        reference=known,
        first_s=trace[0].elapsed_s if trace else None,
        within_s={
            name: first_within(trace, known.value_s, share) if known else None
            for name, share in WITHIN.items()
        },
        proof_s=run.search_time_s if run.status == "optimal" else None,
        lower_bound_s=run.lower_bound_s,
        gap=run.gap,
        search_time_s=run.search_time_s,
        process_time_s=run.process_time_s,
        taken_share=run.taken_share,
        failure=run.failure,
        trace=tuple((each.elapsed_s, each.closed_form_s) for each in run.trace),
        plan=run.plan,
    )
