"""Carry out tasks on a pool until they are done or the clock runs out."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Any

from hetopt.base.deadline import Deadline, Stopped
from hetopt.base.interruption import released
from hetopt.base.run_until import run_until
from hetopt.errors import SolverError
from hetopt.solvers.pools.growing import GrowingPool
from hetopt.solvers.pools.process import Died, Done, Event, Failed, InlinePool, Note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hetopt.solvers.pools.opening import AnyPool
    from hetopt.solvers.race.journal import Journal
    from hetopt.solvers.race.ledger import Ledger, Program
    from hetopt.solvers.race.messages import Found, Verdict
    from hetopt.solvers.request import Request

#: A task is given up after killing this many workers.
_MOST_DEATHS = 3
#: Seconds between two looks at the clock.
_TURN_S = 0.1


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
