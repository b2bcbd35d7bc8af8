"""Run a solver in a process of its own, and record when its plans became better.

For a fair comparison, every run starts in a fresh interpreter: no cache is warm, no
library is loaded and no table is built, and no other run is active. Only the machine
code that numba keeps on disk is made before (``warm_up``), as a user pays for it once.

There are two clocks. The first starts when ``solve`` is called, after the problem is
read, the table built and the solver's module imported: it times improvements and the
search. The second starts with the process and ends when its checked answer arrives.
Both show more than a solver needs if other programs use its cores, which is recorded.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hetopt.base import interruption
from hetopt.base.deadline import Deadline
from hetopt.base.load import Load
from hetopt.errors import HetoptError, InputError, SolverError
from hetopt.problem.training.choices import SCHEDULES
from hetopt.problem.training.principles import PRUNED, Principles
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.kernels import TINY
from hetopt.solvers.loading import load
from hetopt.solvers.pools import children
from hetopt.solvers.refusals import ensure_can, ensure_plans
from hetopt.solvers.registry import SOLVERS, register_solver, solver

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.results.money import Cost
    from hetopt.results.result import Result, Status
    from hetopt.solvers.params import RaceParams
    from hetopt.solvers.progress import Progress
    from hetopt.solvers.registry import Solver

_SPAWN = multiprocessing.get_context("spawn")
#: Seconds beyond its limit after which a run is ended from outside: for reading,
#: building the table and checking, and until a solver library notices the limit.
GRACE_S = 60.0
#: Seconds a process gets to end by itself after its answer.
_END_S = 2.0
#: Time limit of a warm-up; all kernels are compiled by then.
_WARM_UP_S = 300.0
_WARM_UP_ITERATIONS = 1000
#: Label of what is demanded of plans that leave no cluster out.
EVERY_CLUSTER = ", every cluster"
#: Times that differ by a smaller share are equal, but rounded differently.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Space:
    """What the plans of a run keep; only runs of one space have the same optimum.

    Attributes
    ----------
    every_cluster
        Whether every cluster hosts stages (HetAuto, Eq. 12).
    """

    principles: Principles = PRUNED
    every_cluster: bool = False

    @property
    def label(self) -> str:
        """What is relaxed or demanded, in a few words; empty for the pruned space."""
        names = " and ".join(self.principles.relaxed)
        relaxed = f" with {names} relaxed" if names else ""
        return relaxed + (EVERY_CLUSTER if self.every_cluster else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One solver with its settings for a run.

    Attributes
    ----------
    seed
        None if the solver makes no random choices.
    principles
        Principles that its plans keep.
    every_cluster
        Whether plans without stages on some cluster are ruled out, by pins.
    asked
        Principles in the request to the solver; a heuristic of a wider space relaxes
        some without being asked.
    time_limit_s
        Limit of the search; None for no limit.
    exploration
        Exploration weight of tree search; None for the solver's default.
    iterations
        Iterations of tree search; None for as many as the time limit permits.
    enough_s
        Closed form at which the search is interrupted, as if by Ctrl-C.
    cutoff_s
        Closed form above which plans are of no interest.
    """

    solver: str
    seed: int | None = None
    principles: Principles = PRUNED
    every_cluster: bool = False
    asked: Principles = PRUNED
    time_limit_s: float | None
    jobs: int | None = None
    exploration: float | None = None
    iterations: int | None = None
    enough_s: float | None = None
    cutoff_s: float | None = None

    @property
    def label(self) -> str:
        """The solver's name, and whether its plans use every cluster."""
        return self.solver + (EVERY_CLUSTER if self.every_cluster else "")

    @property
    def space(self) -> Space:
        """The space of its plans."""
        return Space(self.principles, self.every_cluster)

    def posed(self, problem: Problem) -> Problem:
        """Return the problem that the solver is given."""
        return problem.with_every_cluster() if self.every_cluster else problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """A better plan: its closed form, and when it was found, in seconds."""

    elapsed_s: float
    closed_form_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The outcome of one solver on one problem.

    Attributes
    ----------
    status
        None if the solver gave no answer at all.
    trace
        Every better plan, in the order of time.
    plan
        The best plan, checked by independent code.
    cost
        Cost of the plan, if the problem has prices.
    lower_bound_s, gap
        As reported by the solver, for its own space.
    search_time_s, process_time_s
        Times by the two clocks; that of the search is None without an answer.
    taken_share
        Most that other programs can have taken of the cores' time that its workers
        could use; None where the system does not say.
    failure
        Why there is no plan, in one line.
    broken
        Whether the solver is at fault: it crashed, or its answer is wrong.
    """

    entry: Entry
    status: Status | None
    trace: tuple[Improvement, ...] = ()
    plan: Plan | None = None
    closed_form_s: float | None = None
    iteration_time_s: float | None = None
    cost: Cost | None = None
    lower_bound_s: float | None = None
    gap: float | None = None
    search_time_s: float | None = None
    process_time_s: float
    taken_share: float | None = None
    failure: str | None = None
    broken: bool = False

    @property
    def outcome(self) -> str:
        """The status; without one, whether its solver refused the problem or broke."""
        return self.status or ("failed" if self.broken else "refused")


def run_apart(problem: Problem, entry: Entry) -> Run:
    """Run a solver in a new process and wait for it; a failure is returned as a Run."""
    clock, load = Deadline(), Load()
    ours, theirs = _SPAWN.Pipe(duplex=False)
    # Not a daemon: solvers start workers of their own.
    args = (theirs, problem, entry, solver(entry.solver))
    process = _SPAWN.Process(target=_serve, args=args)
    children.start(process)
    theirs.close()
    limit_s = None if entry.time_limit_s is None else entry.time_limit_s + GRACE_S
    try:
        answer = _failed(f"did not end {GRACE_S:g} s after its time limit")
        with interruption.released():
            if ours.poll(limit_s):
                answer = ours.recv()
    except EOFError:
        # If the user's signal to the whole process group ended it, this raises.
        interruption.check()
        process.join()
        answer = _failed(f"its process died (exit code {process.exitcode})")
    except KeyboardInterrupt:
        process.terminate()
        raise
    finally:
        process_time_s = clock.elapsed_s()
        # Its answer has arrived; its workers end with it.
        process.join(_END_S)
        process.terminate()
        process.join()
        ours.close()
    answer["taken_share"] = load.taken_share(entry.jobs)
    return Run(entry=entry, process_time_s=process_time_s, **answer)


def warm_up(entry: Entry, schedule: ScheduleName) -> float:
    """Let a solver plan a tiny problem, and return the seconds that this took.

    After that, numba's code is on disk and libraries are in the file cache.
    """
    from hetopt.problem.reading import read_problem_text

    tiny = Entry(
        solver=entry.solver,
        seed=entry.seed,
        principles=entry.principles,
        asked=entry.asked,
        time_limit_s=_WARM_UP_S,
        jobs=1,
        iterations=_WARM_UP_ITERATIONS if solver(entry.solver).samples else None,
    )
    problem = read_problem_text(TINY % SCHEDULES[0])
    chunks = 2 if rule_of(schedule).interleaved else None
    return run_apart(problem.under(schedule, chunks), tiny).process_time_s


def _serve(
    pipe: Connection[Any, Any], problem: Problem, entry: Entry, own: Solver
) -> None:
    """Send the fields of a Run; without a plan, they give the reason in one line."""
    children.settle_in()
    try:
        if own.name not in SOLVERS:
            # A solver that the parent registered is unknown in this process.
            register_solver(own)
        answer = _answer(problem, entry)
    except InputError as error:
        # The solver does not support such a problem.
        answer = _failed(str(error), broken=False)
    except HetoptError as error:
        answer = _failed(str(error))
    except Exception as error:
        # A crash must not lose the answers of the other solvers: it is reported.
        answer = _failed(f"{type(error).__name__}: {error}")
    pipe.send(answer)


def _failed(why: str, *, broken: bool = True) -> dict[str, Any]:
    return {"status": None, "failure": " ".join(why.split()), "broken": broken}


def _answer(problem: Problem, entry: Entry) -> dict[str, Any]:
    from hetopt.check import check_result
    from hetopt.cost.build import build_table
    from hetopt.problem.digest import problem_digest
    from hetopt.results.money import cost_of
    from hetopt.solvers.request import Request

    ensure_can(entry.solver, entry.asked)
    ensure_plans(entry.solver, problem.training.schedule)
    known = build_table(problem)
    problem = entry.posed(problem)
    table = replace(known, problem_digest=problem_digest(problem))
    solve = load(entry.solver)
    recorder = _Recorder(Deadline.after(entry.time_limit_s), entry.enough_s)
    result = solve(
        Request(
            problem=problem,
            table=table,
            params=_params(entry, recorder),
            deadline=recorder.deadline,
            seed=entry.seed or 0,
            cutoff_s=entry.cutoff_s,
        )
    )
    recorder.end(result)
    if result.objective != "closed":
        msg = f"solver {entry.solver} does not minimise the closed form"
        raise InputError(msg)
    if result.relaxed != entry.principles.relaxed:
        msg = f"solver {entry.solver} did not search the space that its record names"
        raise SolverError(msg)
    if result.best is not None and (
        findings := check_result(problem, table, result.to_json())
    ):
        raise SolverError(f"its plan fails the check: {'; '.join(findings)}")
    best = result.best
    return {
        "status": result.status,
        "trace": tuple(recorder.trace),
        "plan": _as_asked(best.plan, known) if best else None,
        "closed_form_s": best.closed_form_s if best else None,
        "iteration_time_s": best.iteration_time_s if best else None,
        "cost": cost_of(problem, best.plan, best.iteration_time_s) if best else None,
        "lower_bound_s": result.lower_bound_s,
        "gap": result.gap,
        "search_time_s": recorder.search_time_s,
        "failure": result.reason,
    }


def _as_asked(plan: Plan, table: CostTable) -> Plan:
    """Return a plan as one of the problem of a table, which has fewer pins."""
    from hetopt.cost.table_file.file import table_digest

    return replace(
        plan, problem_digest=table.problem_digest, table_digest=table_digest(table)
    )


def _params(entry: Entry, recorder: _Recorder) -> RaceParams:
    from hetopt.solvers.params import MctsParams, RaceParams

    shared: dict[str, Any] = {
        "jobs": entry.jobs,
        "on_progress": recorder.take,
        "principles": entry.asked,
    }
    if solver(entry.solver).samples:
        return MctsParams(
            **shared, exploration=entry.exploration, iterations=entry.iterations
        )
    return RaceParams(**shared)


class _Recorder:
    """Records when a search found which plans."""

    def __init__(self, deadline: Deadline, enough_s: float | None = None) -> None:
        self.deadline = deadline
        self._enough_s = enough_s
        self.trace: list[Improvement] = []
        self.search_time_s = 0.0

    def take(self, progress: Progress) -> None:
        """Record a better plan; raise KeyboardInterrupt if it is good enough."""
        if progress.incumbent_s is None:
            return
        self._add(progress.incumbent_s)
        if self._enough_s is not None and progress.incumbent_s <= self._enough_s:
            raise KeyboardInterrupt

    def end(self, result: Result) -> None:
        """Stop the clock, and record the reported plan if it is new."""
        self.search_time_s = self.deadline.elapsed_s()
        if result.best is None:
            return
        value = result.best.closed_form_s
        if self.trace and value > self.trace[-1].closed_form_s * (1 + _ROUNDING):
            msg = (
                f"reported a plan of {self.trace[-1].closed_form_s} s but returned "
                f"one of {value} s"
            )
            raise SolverError(msg)
        if self.trace and value >= self.trace[-1].closed_form_s * (1 - _ROUNDING):
            last = self.trace.pop()
            known = Improvement(elapsed_s=last.elapsed_s, closed_form_s=value)
            self.trace.append(known)
        else:
            self._add(value)

    def _add(self, value: float) -> None:
        if self.trace and value >= self.trace[-1].closed_form_s:
            return
        elapsed_s = self.deadline.elapsed_s()
        self.trace.append(Improvement(elapsed_s=elapsed_s, closed_form_s=value))
