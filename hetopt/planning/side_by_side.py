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
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from hetopt.base import interruption
from hetopt.base.deadline import Deadline
from hetopt.base.load import Load
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import CheckError, HetoptError, InputError, SolverError
from hetopt.planning.asked import Search
from hetopt.planning.posed import Posed, ensure_holds, found_by
from hetopt.problem.digest import problem_digest
from hetopt.problem.training.choices import SCHEDULES
from hetopt.problem.training.principles import PRUNED, Principles
from hetopt.results.result import Status
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.kernels import TINY
from hetopt.solvers.pools import children
from hetopt.solvers.registry import SOLVERS, register_solver, solver

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.results.money import Cost
    from hetopt.results.result import Result
    from hetopt.solvers.progress import Progress
    from hetopt.solvers.registry import Solver

Outcome = Status | Literal["refused", "failed"]

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
    time_limit_s, jobs, exploration, iterations, launcher, pipelines, chunks
        See ``Search``.
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
    launcher: str | None = None
    pipelines: int = 1
    chunks: tuple[int, ...] | None = None
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

    def search(self, problem: Problem) -> Search:
        """Return what is asked about a problem; raises InputError."""
        return Search(
            problem=problem.with_every_cluster() if self.every_cluster else problem,
            solver=self.solver,
            time="closed",
            principles=self.asked,
            launcher=self.launcher,
            pipelines=self.pipelines,
            chunks=self.chunks,
            time_limit_s=self.time_limit_s,
            jobs=self.jobs,
            seed=self.seed or 0,
            exploration=self.exploration,
            iterations=self.iterations,
        )

    def checked(self, problem: Problem, posed: Posed, result: Result) -> Plan | None:
        """Check a result, and return its plan as one of the problem itself.

        Raises
        ------
        SolverError
            It is wrong, or of another space.
        """
        if result.relaxed != self.principles.relaxed:
            msg = f"solver {self.solver} did not search the space that its record names"
            raise SolverError(msg)
        try:
            ensure_holds(posed.problem, posed.table, result)
        except CheckError as error:
            raise SolverError(f"its plan fails the check: {error}") from error
        plan = None if result.best is None else result.best.plan
        if plan is None or not self.every_cluster:
            return plan
        found, table = result.problem or posed.problem, result.table or posed.table
        digest = problem_digest(replace(found, pins=problem.pins))
        known = table_digest(replace(table, problem_digest=digest))
        return replace(plan, problem_digest=digest, table_digest=known)


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
    result
        The solver's answer to ``entry.search``; None without one.
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
    result: Result | None = field(default=None, compare=False, repr=False)

    @property
    def outcome(self) -> Outcome:
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
    posed = Posed.of(entry.search(problem))
    request = posed.request()
    recorder = _Recorder(request.deadline, entry.enough_s)
    params = replace(request.params, on_progress=recorder.take)
    request = replace(request, params=params, cutoff_s=entry.cutoff_s)
    result = found_by(posed.tree(request))
    recorder.end(result)
    if result.objective != "closed":
        msg = f"solver {entry.solver} does not minimise the closed form"
        raise InputError(msg)
    plan = entry.checked(problem, posed, result)
    return {
        **fields_of(result, plan),
        "trace": tuple(recorder.trace),
        "search_time_s": recorder.search_time_s,
    }


def fields_of(result: Result, plan: Plan | None) -> dict[str, Any]:
    """Return the fields of a run that a result decides.

    Parameters
    ----------
    plan
        The best plan, as one of the problem itself.
    """
    best = result.best
    return {
        "status": result.status,
        "plan": plan,
        "closed_form_s": best.closed_form_s if best else None,
        "iteration_time_s": best.iteration_time_s if best else None,
        "cost": result.cost,
        "lower_bound_s": result.lower_bound_s,
        "gap": result.gap,
        "failure": result.reason,
        "result": replace(result, problem=None, table=None),
    }


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
