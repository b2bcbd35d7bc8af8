"""Carry out tasks on a pool until they are done or the clock runs out."""

from __future__ import annotations

import os
from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Any

from hetopt.deadline import Deadline, Stopped, run_until
from hetopt.errors import SolverError
from hetopt.interruption import released
from hetopt.solvers.pools.growing import ALONE_S, GrowingPool
from hetopt.solvers.pools.process import (
    Died,
    Done,
    Event,
    Failed,
    InlinePool,
    Note,
    Pool,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hetopt.solvers.params import RaceParams
    from hetopt.solvers.pools.ray_actors import RayPool
    from hetopt.solvers.race.journal import Journal
    from hetopt.solvers.race.ledger import Ledger, Program
    from hetopt.solvers.race.messages import Found, Verdict
    from hetopt.solvers.request import Request

    AnyPool = Pool | InlinePool | GrowingPool | RayPool

#: A task is given up after killing this many workers.
_MOST_DEATHS = 3
#: Seconds between two looks at the clock.
_TURN_S = 0.1
#: Each worker takes a quarter of a gigabyte; more than a few per core do not pay.
_PER_CORE = 4
#: CPU seconds per strategy of a table that sending it to a worker takes.
_SENDING_S = 1e-5


class TaskLoop:
    """Something that takes many tasks, and what is known on the way."""

    def __init__(
        self,
        ledger: Ledger,
        pool: AnyPool,
        request: Request,
        journal: Journal | None = None,
    ) -> None:
        self.ledger = ledger
        self.journal = journal
        self.pool = pool
        self.deadline = request.deadline
        self._on_progress = request.params.on_progress
        self.deaths: Counter[Any] = Counter()
        self._told_s = -inf
        pool.shared.value = ledger.cutoff

    def perform(
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
                self.tell()
                return
            for event in self._collect(timed=timed):
                task = running[event.task]
                match event:
                    case Note():
                        self.find(event.content)
                        continue
                    case Done():
                        take(task, event.value)
                    case Failed():
                        msg = f"{task} failed:\n{event.trace}"
                        raise SolverError(msg)
                    case Died():
                        self._after_death(task, again)
                del running[event.task]
            if self.deadline.elapsed_s() >= self._told_s + _TURN_S:
                self.tell()
            if timed and self.deadline.is_over():
                raise Stopped

    def _collect(self, *, timed: bool) -> list[Event]:
        """Return what has happened; a task in this process ends when the time is up.

        What it has found until then is taken in.
        """
        pool = self.pool

        def collect() -> list[Event]:
            # Only here may the user's word to stop come in between: what is known is
            # always whole.
            with released():
                return pool.collect(_TURN_S)

        if not isinstance(pool, InlinePool | GrowingPool):
            return collect()
        try:
            return run_until(self.deadline if timed else Deadline(), collect)
        except (Stopped, KeyboardInterrupt):
            for content in pool.unheard:
                self.find(content)
            raise

    def _after_death(self, task: Any, again: list[Any]) -> None:
        """Run the task of a dead worker again, a few times; never take it for no."""
        self.deaths[task] += 1
        if self.deaths[task] < _MOST_DEATHS:
            again.append(task)
        else:
            self.give_up(task)

    def give_up(self, task: Any) -> None:
        """Take note of a task that kills its workers."""

    def find(self, found: Found) -> None:
        """Take in a plan that a task says it found; tell of a better one at once."""
        ranked = self.ledger.ranked()
        better = not ranked or found.value < ranked[0].value
        taken = self.ledger.find(found)
        if taken and self.journal is not None:
            self.journal.found(found)
        self.pool.shared.value = self.ledger.cutoff
        if taken and better:
            self.tell()

    def best_first(
        self,
        task_of: Callable[[Program], Any],
        take: Callable[[Program, Verdict], None],
        count: int | None = None,
    ) -> None:
        """Have open programs looked at, best bound first, each once.

        One that this process alone had no patience for comes again, when others help.

        Parameters
        ----------
        task_of
            Makes a program's task, whose ``stages`` and ``microbatches`` say which.
        take
            Called with what became of it.
        count
            How many programs at most; None for all there are.
        """
        started: set[tuple[int, int]] = set()
        alone: set[tuple[int, int]] = set()

        def tasks() -> Iterator[Any]:
            while True:
                waiting = [
                    program
                    for program in self.ledger.open()
                    if (program.stages, program.microbatches) not in started
                ]
                if count is not None and len(started) >= count:
                    waiting = []
                if not waiting and not alone:
                    return
                if not waiting:
                    # One that runs out of patience comes again.
                    yield None
                    continue
                program = min(waiting, key=lambda program: program.rank)
                started.add((program.stages, program.microbatches))
                if self.patience_s() is not None:
                    alone.add((program.stages, program.microbatches))
                yield task_of(program)

        def taken(task: Any, found: Verdict) -> None:
            key = task.stages, task.microbatches
            if key in alone:
                alone.discard(key)
                if not found.closed:
                    # More than this process should do alone.
                    started.discard(key)
                    return
            take(self.ledger.programs[key], found)

        self.perform(tasks(), taken)

    def allowance(self) -> float | None:
        """Return the seconds a task may take: until the end, or until others help."""
        return self.deadline.within(self.patience_s()).limit_s

    def patience_s(self) -> float | None:
        """Return the seconds a task may take before others help; None for any."""
        return self.pool.patience_s if isinstance(self.pool, GrowingPool) else None

    def tell(self) -> None:
        """Tell how far the search is."""
        if self._on_progress is None:
            return
        self._told_s = self.deadline.elapsed_s()
        self._on_progress(self.ledger.progress(self._told_s))

    @property
    def works_here(self) -> bool:
        """Whether tasks are done in this process, one at a time."""
        return isinstance(self.pool, InlinePool)


def open_pool(
    params: RaceParams,
    make: Callable[..., Callable[[Any], Any]],
    payload: Any,
    *,
    growing: bool = False,
    strategies: int = 0,
    alone_s: float = ALONE_S,
) -> AnyPool:
    """Start the workers; with one job or none, this process is the only one.

    Parameters
    ----------
    growing
        Whether this process may work alone at first, if ``jobs`` is up to us.
    strategies
        That the table of the payload has: the more, the longer it works alone.
    alone_s
        CPU seconds it works alone beside that.
    """
    jobs = params.jobs
    alone_s += _SENDING_S * strategies
    if params.executor == "ray":
        from hetopt.solvers.pools.ray_actors import RayPool

        return RayPool(jobs, make, payload)
    if jobs is None and growing:
        return GrowingPool(worker_count(None), make, payload, alone_s=alone_s)
    if jobs is not None and jobs <= 1:
        return InlinePool(make, payload)
    return Pool(worker_count(jobs), make, payload)


def worker_count(jobs: int | None) -> int:
    """Return how many workers there are with so many jobs; None: one per core."""
    return _cores() if jobs is None else min(max(jobs, 1), most_workers())


def most_workers() -> int:
    """Return how many workers this machine is trusted with, whoever asks for more."""
    return _PER_CORE * _cores()


def _cores() -> int:
    """Return the cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
