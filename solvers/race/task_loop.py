"""Run tasks on a pool until they are done or the time is up."""

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
    from hetopt.solvers.race.ledger import Ledger, Program
    from hetopt.solvers.race.messages import Found, Verdict
    from hetopt.solvers.request import Request

#: A task is given up after killing this many workers.
_MOST_DEATHS = 3
#: Seconds between two checks of the clock.
_TURN_S = 0.1


class TaskLoop:
    """Work that consists of many tasks, with the ledger of what they find."""

    def __init__(self, ledger: Ledger, pool: AnyPool, request: Request) -> None:
        self.ledger = ledger
        self.journal = request.journal
        self.pool = pool
        self.request = request
        self.deadline = request.deadline
        self._on_progress = request.params.on_progress
        self.deaths: Counter[Any] = Counter()
        self._told_s = -inf
        #: Programs without plans that the journal has, or that need no search.
        self._infeasible = {
            id(each) for each in ledger.programs.values() if each.how == "infeasible"
        }
        pool.shared.value = ledger.cutoff

    def perform(
        self,
        tasks: Iterator[Any],
        take: Callable[[Any, Any], None],
        *,
        timed: bool = True,
    ) -> None:
        """Keep all workers busy until the tasks are done or the time is up."""
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
                        self._keep_infeasible()
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
        """Return the pool's events; a task in this process ends when the time is up.

        The plans that it found until then are kept.
        """
        pool = self.pool

        def collect() -> list[Event]:
            # An interrupt is raised only here, so that the ledger is always
            # consistent.
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

    def _keep_infeasible(self) -> None:
        """Keep in the journal which programs have turned out to have no plan."""
        if self.journal is None:
            return
        programs = self.ledger.programs.values()
        none = [each for each in programs if each.how == "infeasible"]
        new = [each for each in none if id(each) not in self._infeasible]
        if new:
            self.journal.infeasible(self.ledger, new)
        self._infeasible.update(map(id, new))

    def _after_death(self, task: Any, again: list[Any]) -> None:
        """Run the task of a dead worker again; give it up after ``_MOST_DEATHS``."""
        self.deaths[task] += 1
        if self.deaths[task] < _MOST_DEATHS:
            again.append(task)
        else:
            self.give_up(task)

    def give_up(self, task: Any) -> None:
        """Record that a task is given up because its workers keep dying."""

    def find(self, found: Found) -> None:
        """Add a plan that a task found; report progress at once if it is the best."""
        ranked = self.ledger.ranked()
        better = not ranked or found.value < ranked[0].value
        taken = self.ledger.find(found)
        if taken and self.journal is not None:
            self.journal.found(self.ledger, found)
        self.pool.shared.value = self.ledger.cutoff
        if taken and better:
            self.tell()

    def best_first(
        self,
        task_of: Callable[[Program], Any],
        take: Callable[[Program, Verdict], None],
        count: int | None = None,
    ) -> None:
        """Run a task for each open program once, best bound first.

        A task that runs out of patience in this process runs again once workers help.

        Parameters
        ----------
        task_of
            Makes a program's task, with the same ``stages`` and ``microbatches``.
        take
            Called with a program and its verdict.
        count
            Most programs to run; None for all.
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
                    # A task that is running may yet have to run again.
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
                    # Too much for this process alone: run it again with workers.
                    started.discard(key)
                    return
            take(self.ledger.programs[key], found)
            if self.journal is not None:
                self.journal.settled(self.ledger, self.ledger.programs[key])

        self.perform(tasks(), taken)

    def allowance(self) -> float | None:
        """Return the seconds a task may take, until the end or until workers help."""
        return self.deadline.within(self.patience_s()).limit_s

    def patience_s(self) -> float | None:
        """Return the seconds a task may take before workers help; None for no limit."""
        return self.pool.patience_s if isinstance(self.pool, GrowingPool) else None

    def tell(self) -> None:
        """Report the progress of the search."""
        if self._on_progress is None:
            return
        self._told_s = self.deadline.elapsed_s()
        self._on_progress(self.ledger.progress(self._told_s))

    @property
    def works_here(self) -> bool:
        """Whether tasks are done in this process, one at a time."""
        return isinstance(self.pool, InlinePool)
