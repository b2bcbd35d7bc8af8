"""A comparison of solvers as plain data: what each found, and when.

An *optimum* is a closed form that some solver of the comparison has proven optimal.
Spaces of plans differ: a heuristic that need not keep all principles may find a plan
better than any of the pruned space, and is compared with the optimum of its own space.
If no optimum is proven, the best plan known is used instead, and labelled so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetopt.planning.side_by_side import Space
from hetopt.results.settlement import OPTIMALITY_GAP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hetopt.planning.side_by_side import Improvement, Run
    from hetopt.problem.training.choices import AskedSchedule
    from hetopt.problem.training.principles import Relaxable

COMPARISON_SCHEMA = "hetopt-comparison/1"
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
class Reference:
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

    space: Space
    value_s: float
    proven: bool
    solver: str
    lower_bound_s: float | None

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
class Comparison:
    """Problems, each with the runs of all solvers.

    Attributes
    ----------
    machine
        The machine, in words.
    warm_up_s
        Seconds of the first run, which compiles and is not counted; by solver and what
        it relaxes.
    """

    machine: str
    time_limit_s: float
    jobs: int | None
    warm_up_s: Mapping[str, float]
    contests: tuple[Contest, ...]

    def findings(self) -> list[str]:
        """Return one line for every run that broke, and every contradiction."""
        return [line for contest in self.contests for line in contest.findings()]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as plain JSON data."""
        return {
            "schema": COMPARISON_SCHEMA,
            "machine": self.machine,
            "time_limit_s": self.time_limit_s,
            "jobs": self.jobs,
            "warm_up_s": dict(self.warm_up_s),
            "problems": [_contest_json(contest) for contest in self.contests],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The reported values of one run; times in seconds, None if there is none.

    Attributes
    ----------
    within_s
        When a plan so close to the reference was known, by the names of ``WITHIN``.
    proof_s
        When the search ended with a proof of optimality.
    taken_share
        Most that other programs can have taken of the cores' time that it could use.
    above
        Share by which the plan is above the reference of its space.
    """

    problem: str
    solver: str
    seed: int | None
    space: Space
    extra: bool
    status: str
    closed_form_s: float | None
    iteration_time_s: float | None
    stages: int | None
    microbatches: int | None
    devices: int | None
    cost_per_iteration: float | None
    cost_per_trillion_tokens: float | None
    above: float | None
    reference_s: float | None
    reference_proven: bool | None
    first_s: float | None
    within_s: Mapping[str, float | None]
    proof_s: float | None
    lower_bound_s: float | None
    gap: float | None
    search_time_s: float | None
    process_time_s: float
    taken_share: float | None
    failure: str | None

    @property
    def relaxed(self) -> tuple[Relaxable, ...]:
        """Principles that its plans need not keep."""
        return self.space.principles.relaxed

    @property
    def every_cluster(self) -> bool:
        """Whether its plans use every cluster."""
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
    entry, plan, extra = run.entry, run.plan, run in contest.extra
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
        stages=sum(len(own.stages) for own in plan.pipelines) if plan else None,
        microbatches=sum(own.microbatches for own in plan.pipelines) if plan else None,
        devices=plan.devices if plan else None,
        cost_per_iteration=run.cost.per_iteration if run.cost else None,
        cost_per_trillion_tokens=run.cost.per_trillion_tokens if run.cost else None,
        above=above,
        reference_s=known.value_s if known else None,
        reference_proven=known.proven if known else None,
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
    )


def _contest_json(contest: Contest) -> dict[str, Any]:
    return {
        "problem": contest.problem,
        "problem_digest": contest.digest,
        "schedule": contest.schedule,
        "references": [
            {
                "relaxed": list(each.space.principles.relaxed),
                "every_cluster": each.space.every_cluster,
                "value_s": each.value_s,
                "proven": each.proven,
                "solver": each.solver,
                "lower_bound_s": each.lower_bound_s,
            }
            for each in contest.references().values()
        ],
        "runs": [
            _run_json(run, row)
            for run, row in zip(contest.every, rows(contest), strict=True)
        ],
    }


def _run_json(run: Run, row: Row) -> dict[str, Any]:
    return {
        "solver": row.solver,
        "seed": row.seed,
        "relaxed": list(row.relaxed),
        "every_cluster": row.every_cluster,
        "extra": row.extra,
        "status": row.status,
        "closed_form_s": row.closed_form_s,
        "iteration_time_s": row.iteration_time_s,
        **({} if run.cost is None else {"cost": run.cost.to_json()}),
        "above": row.above,
        "first_s": row.first_s,
        "within_s": dict(row.within_s),
        "proof_s": row.proof_s,
        "lower_bound_s": row.lower_bound_s,
        "gap": row.gap,
        "search_time_s": row.search_time_s,
        "process_time_s": row.process_time_s,
        "taken_share": row.taken_share,
        "failure": row.failure,
        "trace": [[each.elapsed_s, each.closed_form_s] for each in run.trace],
        "plan": run.plan.to_json() if run.plan else None,
    }
