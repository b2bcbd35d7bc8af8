"""The race over (p, q): bound all, sketch a few plans, settle the rest, prove.

1. Every q is surveyed: a valid lower bound for each of its p.
2. The relaxed optima with the least bounds are turned into plans: a first cutoff.
3. Every q that may hold something better is surveyed again, closely.
4. What the bounds leave is settled by the engine, best bound first. Every better
   plan becomes the cutoff of all programs, running ones too.
5. Among the programs that tie, the tie rule picks the plan that is reported.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.cost.table import TICK_S
from hetopt.errors import SolverError
from hetopt.formulations.program import PERIOD_SCALE
from hetopt.problem.principles import PRUNED
from hetopt.solvers.journal import Journal
from hetopt.solvers.ledger import Ledger
from hetopt.solvers.outcome import result_of
from hetopt.solvers.pool import Died, Done, Failed, InlinePool, Note, Pool
from hetopt.solvers.progress import Progress
from hetopt.solvers.worker import (
    NO_CUTOFF,
    Found,
    Payload,
    SettleTask,
    SketchTask,
    SurveyTask,
    TieTask,
    Verdict,
    make,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hetopt.cost.table import CostTable
    from hetopt.problem.principles import Principles
    from hetopt.problem.problem import Problem
    from hetopt.result import Result
    from hetopt.solvers.bounds import Survey
    from hetopt.solvers.params import Executor
    from hetopt.solvers.ray_pool import RayPool

    AnyPool = Pool | InlinePool | RayPool

#: Relaxed optima that are turned into plans, and how many of one q.
_SKETCHES, _SKETCHES_PER_Q = 8, 3
#: A task is given up after killing this many workers.
_MOST_DEATHS = 3
#: Seconds between two looks at the clock.
_TURN_S = 0.1


def race(
    problem: Problem,
    table: CostTable,
    *,
    solver: str,
    engine: str,
    jobs: int | None,
    top: int,
    time_limit_s: float | None,
    seed: int,
    cutoff: float | None,
    on_progress: Callable[[Progress], None] | None,
    principles: Principles = PRUNED,
    journal: str | None = None,
    executor: Executor = "process",
) -> Result:
    """Find the best plan over all (p, q) and settle every one of them.

    Parameters
    ----------
    engine
        ``module:attribute`` of what makes the engine in every worker.
    jobs
        Worker processes; None for one per core, 0 to work in this process.
    cutoff
        Seconds; plans above it are of no interest.
    principles
        What a plan has to keep; the engine must know a program for them.
    journal
        A file to go on from, and to remember everything in.
    executor
        Where the workers run.

    Raises
    ------
    InputError
        The journal cannot be used.
    """
    limit = NO_CUTOFF if cutoff is None else int(cutoff / TICK_S * PERIOD_SCALE)
    ledger = Ledger(problem, table, top=top, limit=limit)
    began = time.monotonic()
    with _open(journal, ledger, table, principles) as memory:
        if ledger.open() or memory is not None:
            payload = Payload(
                problem=problem,
                table=table,
                engine=engine,
                seed=seed,
                top=top,
                principles=principles,
            )
            pool = _pool(executor, jobs, payload)
            course = _Course(
                ledger,
                pool,
                began=began,
                limit_s=time_limit_s,
                on_progress=on_progress,
                journal=memory,
            )
            # Whatever is known when the clock runs out, or at Ctrl-C, is the answer.
            try:
                with suppress(_Stopped, KeyboardInterrupt):
                    course.run()
            finally:
                pool.close()
    return result_of(
        ledger,
        problem,
        table,
        solver=solver,
        principles=principles,
        search_time_s=time.monotonic() - began,
    )


def _pool(executor: Executor, jobs: int | None, payload: Payload) -> AnyPool:
    if executor == "ray":
        from hetopt.solvers.ray_pool import RayPool

        return RayPool(jobs, make, payload)
    if jobs is None:
        jobs = _cores()
    return Pool(jobs, make, payload) if jobs else InlinePool(make, payload)


@contextmanager
def _open(
    path: str | None, ledger: Ledger, table: CostTable, principles: Principles
) -> Iterator[Journal | None]:
    """Open the journal, if there is to be one."""
    if path is None:
        yield None
        return
    journal = Journal(path, ledger, table, principles)
    try:
        yield journal
    finally:
        journal.close()


class _Stopped(Exception):
    """The clock ran out."""


class _Course:
    """One run of the race: its phases, and the tasks they are made of."""

    def __init__(
        self,
        ledger: Ledger,
        pool: AnyPool,
        *,
        began: float,
        limit_s: float | None,
        on_progress: Callable[[Progress], None] | None,
        journal: Journal | None,
    ) -> None:
        self.ledger = ledger
        self.journal = journal
        self.pool = pool
        self.began = began
        self.limit_s = limit_s
        self.on_progress = on_progress
        self.deaths: Counter[Any] = Counter()
        pool.shared.value = ledger.cutoff

    def run(self) -> None:
        self._survey(None)
        self._sketch()
        if self.ledger.cutoff != NO_CUTOFF:
            self._survey(self.ledger.cutoff)
        self._settle()
        self._break_ties()

    # ---------------------------------------------------------------- phases

    def _survey(self, cutoff: int | None) -> None:
        """Bound every open program, q by q."""

        def take(task: SurveyTask, found: Survey) -> None:
            for program in self.ledger.open():
                if program.microbatches != task.microbatches:
                    continue
                bound = float(found.bound[program.stages])
                if not np.isfinite(bound):
                    program.how = "infeasible"
                    continue
                program.bound = max(program.bound, _ticks_below(bound))
                program.period = float(found.period[program.stages])
            self.ledger.refute()

        counts = sorted({program.microbatches for program in self.ledger.open()})
        tasks = [SurveyTask(microbatches=q, cutoff=cutoff) for q in counts]
        self._perform(iter(tasks), take)

    def _sketch(self) -> None:
        """Turn the most promising relaxed optima into plans."""
        per_q: Counter[int] = Counter()
        tasks = []
        for program in sorted(self.ledger.open(), key=lambda program: program.rank):
            if per_q[program.microbatches] < _SKETCHES_PER_Q:
                per_q[program.microbatches] += 1
                tasks.append(
                    SketchTask(
                        microbatches=program.microbatches,
                        stages=program.stages,
                        period=program.period,
                    )
                )
        self._perform(iter(tasks[:_SKETCHES]), lambda task, found: None)
        self.ledger.refute()

    def _settle(self) -> None:
        """Settle what the bounds leave, best bound first."""

        def tasks() -> Iterator[SettleTask]:
            started = set()
            while True:
                waiting = [
                    program
                    for program in self.ledger.open()
                    if (program.stages, program.microbatches) not in started
                ]
                if not waiting:
                    return
                program = min(waiting, key=lambda program: program.rank)
                started.add((program.stages, program.microbatches))
                yield SettleTask(
                    microbatches=program.microbatches,
                    stages=program.stages,
                    time_limit_s=self._left(),
                    start=self.ledger.best_of(program),
                )

        def take(task: SettleTask, found: Verdict) -> None:
            program = self.ledger.programs[task.stages, task.microbatches]
            self.ledger.settle(program, found)
            if self.journal is not None:
                self.journal.settled(program)

        self._perform(tasks(), take)

    def _break_ties(self) -> None:
        """Let every program that ties with the last plan wanted name its first ones.

        Which of several equally good plans a search meets first is chance; which
        ones the tie rule names is not. That takes no longer than the last proofs
        did, so the clock is not asked.
        """
        ledger = self.ledger
        if not ledger.plans or any(
            program.how == "unsettled" for program in ledger.programs.values()
        ):
            return
        worst = ledger.ranked()[-1].value
        tasks = []
        for program in ledger.programs.values():
            values = {
                found.value
                for found in ledger.plans.values()
                if program.holds(found) and found.value <= worst
            }
            if values:
                tasks.append(
                    TieTask(
                        microbatches=program.microbatches,
                        stages=program.stages,
                        values=tuple(sorted(values)),
                    )
                )
        named: list[Found] = []
        self._perform(iter(tasks), lambda task, found: named.extend(found), timed=False)
        if named:
            ledger.plans = {found.decision.shape: found for found in named}

    # ----------------------------------------------------------------- tasks

    def _perform(
        self,
        tasks: Iterator[Any],
        take: Callable[[Any, Any], None],
        *,
        timed: bool = True,
    ) -> None:
        """Keep all workers busy until the tasks are done or the clock runs out."""
        running: dict[int, Any] = {}
        again: list[Any] = []
        number = 0
        while True:
            while self.pool.idle:
                task = again.pop() if again else next(tasks, None)
                if task is None:
                    break
                number += 1
                running[number] = task
                self.pool.submit(number, task)
            if not running:
                return
            for event in self.pool.collect(_TURN_S):
                task = running[event.task]
                match event:
                    case Note():
                        self._find(event.content)
                        continue
                    case Done():
                        take(task, event.value)
                    case Failed():
                        msg = f"{task} failed:\n{event.trace}"
                        raise SolverError(msg)
                    case Died():
                        self._mourn(task, again)
                del running[event.task]
            self._tell()
            left = self._left()
            if timed and left is not None and left <= 0:
                raise _Stopped

    def _mourn(self, task: Any, again: list[Any]) -> None:
        """Run the task of a dead worker again, a few times; never take it for no."""
        self.deaths[task] += 1
        if self.deaths[task] < _MOST_DEATHS:
            again.append(task)
        elif isinstance(task, SettleTask):
            program = self.ledger.programs[task.stages, task.microbatches]
            program.how = "unsettled"

    def _find(self, found: Found) -> None:
        if self.ledger.find(found) and self.journal is not None:
            self.journal.found(found)
        self.pool.shared.value = self.ledger.cutoff

    def _left(self) -> float | None:
        if self.limit_s is None:
            return None
        return self.limit_s - (time.monotonic() - self.began)

    def _tell(self) -> None:
        if self.on_progress is None:
            return
        ledger = self.ledger
        ranked = ledger.ranked()
        incumbent = ranked[0].value / PERIOD_SCALE * TICK_S if ranked else None
        bound, gap = ledger.bound_s(), None
        if incumbent is not None and bound is not None:
            bound = min(bound, incumbent)
            gap = (incumbent - bound) / incumbent
        self.on_progress(
            Progress(
                elapsed_s=time.monotonic() - self.began,
                incumbent_s=incumbent,
                bound_s=bound,
                gap=gap,
                settled=len(ledger.programs) - len(ledger.open()),
                programs=len(ledger.programs),
            )
        )


def _cores() -> int:
    """Return the cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _ticks_below(time_ns: float) -> int:
    """Return a whole objective no larger than a bound found in floating point."""
    return max(0, int(time_ns * PERIOD_SCALE) - 1)
