"""A pool of spawned workers that survives the death of any of them.

``concurrent.futures`` breaks the whole pool when one process dies, and does not report
which task it ran. Here every worker has a pipe of its own, so a death is reported for
the task that was running, and the other workers go on.
"""

from __future__ import annotations

import multiprocessing
import traceback
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from hetopt.base.deadline import Deadline, Stopped
from hetopt.base.interruption import held
from hetopt.solvers.pools import children

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

_SPAWN = multiprocessing.get_context("spawn")
#: Seconds that all workers together get to end by themselves before they are killed.
_GRACE_S = 1.0
#: How many times a worker sends ``Ready`` before its first task.
_READY = 2


@dataclass(frozen=True, slots=True)
class Note:
    """A message of a running task."""

    task: int
    content: Any


@dataclass(frozen=True, slots=True)
class Done:
    """A task's return value."""

    task: int
    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """A task raised; ``trace`` is its traceback."""

    task: int
    trace: str


@dataclass(frozen=True, slots=True)
class Died:
    """The process of a running task died."""

    task: int


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker has started, or has made the payload ready: each sends two of these."""


Event = Note | Done | Failed | Died


class Pool:
    """Workers that call ``make(payload, shared, say)`` once, then its result per task.

    Parameters
    ----------
    size
        Number of processes.
    make
        Importable by a spawned process; returns the function that runs a task.
    payload
        Picklable; sent to each worker once.
    wait
        Whether to wait until workers have started and read the payload; if not, call
        ``is_ready`` until it is True: it sends them the payload.
    """

    def __init__(
        self,
        size: int,
        make: Callable[..., Callable[[Any], Any]],
        payload: Any,
        *,
        wait: bool = True,
    ) -> None:
        self._make = make
        self._payload = payload
        self._workers: list[_Worker] = []
        try:
            with held():
                #: A whole number all workers can read while they run. Only the parent
                #: writes it, so it needs no lock, which would outlive a killed parent.
                self.shared = _SPAWN.RawValue("q", 0)
                for _ in range(size):
                    self._workers.append(self._start())
            for worker in self._workers if wait else ():
                self._brief(worker)
        except BaseException:
            self.close()
            raise

    @property
    def idle(self) -> int:
        """Number of workers without a task."""
        return sum(worker.task is None for worker in self._workers)

    def is_ready(self) -> bool:
        """Whether all workers wait for tasks; new ones are sent the payload."""
        for worker in self._workers:
            worker.hear()
            if worker.heard and not worker.briefed:
                self._brief(worker)
        # A dead worker is replaced when it is given a task.
        return all(
            worker.is_ready or not worker.process.is_alive() for worker in self._workers
        )

    def submit(self, task: int, content: Any) -> None:
        """Give a task to an idle worker; raises RuntimeError if there is none."""
        for index, worker in enumerate(self._workers):
            if worker.task is not None:
                continue
            if not worker.process.is_alive():
                worker = self._workers[index] = self._replacement()
            worker.task = task
            # If it died just now, collect() will report it.
            with suppress(OSError):
                worker.pipe.send(content)
            return
        msg = "no worker is idle"
        raise RuntimeError(msg)

    def collect(self, timeout_s: float) -> list[Event]:
        """Wait for events, at most ``timeout_s`` seconds, and return them."""
        #: Busy workers by what is waited for: their pipes and their processes.
        busy: dict[Any, _Worker] = {}
        for worker in self._workers:
            if worker.task is not None:
                busy |= {worker.pipe: worker, worker.process.sentinel: worker}
        deadline = Deadline.after(timeout_s)
        events: list[Event] = []
        ready: list[Any] = [None]
        # A worker's ``Ready`` is no event.
        while ready and not events:
            ready = wait([*busy], max(deadline.left_s() or 0.0, 0.0))
            for worker in dict.fromkeys(busy[item] for item in ready):
                events += self._read(worker)
        return events

    def close(self) -> None:
        """End all workers, busy or not."""
        for worker in self._workers:
            if worker.task is None:
                worker.hear()
            if worker.task is not None or not worker.is_ready:
                worker.process.terminate()
            # An idle worker ends when its pipe is closed.
            worker.pipe.close()
        grace = Deadline.after(_GRACE_S)
        for worker in self._workers:
            worker.process.join(max(grace.left_s() or 0.0, 0.0))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()

    def _start(self) -> _Worker:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_serve, args=(theirs, self.shared), daemon=True)
        # Workers call functions of hetopt's modules only, none of the program's.
        with children.without_main():
            children.start(process)
        theirs.close()
        return _Worker(process=process, pipe=ours)

    def _brief(self, worker: _Worker) -> None:
        """Send a worker ``make`` and the payload.

        The payload may be large, so sending takes until the worker reads it: a parent
        that is killed meanwhile leaves a truncated message, which ``_serve`` expects.
        """
        worker.briefed = True
        # If it died just now, collect() will report it.
        with suppress(OSError):
            worker.pipe.send((self._make, self._payload))

    def _replacement(self) -> _Worker:
        worker = self._start()
        self._brief(worker)
        return worker

    def _read(self, worker: _Worker) -> list[Event]:
        """Return all events of a worker; its death comes after its last messages."""
        events: list[Event] = []
        task = worker.task
        if task is None:
            return events
        try:
            while worker.pipe.poll():
                kind, content = worker.pipe.recv()
                if kind is Ready:
                    worker.heard += 1
                    continue
                events.append(kind(task, content))
                if kind is not Note:
                    worker.task = None
                    return events
        except (EOFError, OSError):
            pass
        else:
            if worker.process.is_alive():
                return events
        worker.process.join()
        worker.pipe.close()
        self._workers[self._workers.index(worker)] = self._replacement()
        return [*events, Died(task)]


class InlinePool:
    """The interface of ``Pool`` without processes: ``collect`` runs the task."""

    def __init__(self, make: Callable[..., Callable[[Any], Any]], payload: Any) -> None:
        self.shared = _Shared()
        self._said: list[Any] = []
        self._run = make(payload, self.shared, self._said.append)
        self._task: tuple[int, Any] | None = None

    @property
    def idle(self) -> int:
        """1 when no task waits, else 0."""
        return int(self._task is None)

    def submit(self, task: int, content: Any) -> None:
        """Take a task; raises RuntimeError if one waits already."""
        if self._task is not None:
            msg = "no worker is idle"
            raise RuntimeError(msg)
        self._task = (task, content)

    def collect(self, timeout_s: float) -> list[Event]:
        """Run the waiting task to its end; ``Stopped`` and Ctrl-C pass through."""
        if self._task is None:
            return []
        task, content = self._task
        self._task = None
        self._said.clear()
        try:
            last: Event = Done(task, self._run(content))
        except Stopped:
            raise
        except Exception:
            # As for a worker: the caller decides what a failure means.
            last = Failed(task, traceback.format_exc())
        return [*(Note(task, said) for said in self._said), last]

    @property
    def unheard(self) -> list[Any]:
        """Messages of a task before an exception ended it."""
        return list(self._said)

    def close(self) -> None:
        """Do nothing: there are no processes."""


@dataclass(slots=True)
class _Shared:
    value: int = 0


@dataclass(slots=True, eq=False)
class _Worker:
    process: SpawnProcess
    pipe: Connection[Any, Any]
    task: int | None = None
    #: Whether the payload was sent to it, and how many ``Ready`` have come back.
    briefed: bool = False
    heard: int = 0

    @property
    def is_ready(self) -> bool:
        """Whether it has read the payload."""
        return self.heard == _READY

    def hear(self) -> None:
        """Read its ``Ready`` messages, while it has no task."""
        with suppress(EOFError, OSError):
            while not self.is_ready and self.pipe.poll():
                self.pipe.recv()
                self.heard += 1


def _serve(pipe: Connection[Any, Any], shared: Any) -> None:
    children.settle_in()
    # No processes are started here. But some libraries, such as Pyomo, make locks on
    # import: locks for forks have no name that outlives a terminated worker.
    if "fork" in multiprocessing.get_all_start_methods():
        multiprocessing.set_start_method("fork", force=True)
    # A closed pipe or a truncated message: the parent has finished, or was killed.
    with suppress(EOFError, OSError, UnpicklingError):
        pipe.send((Ready, None))
        make, payload = pipe.recv()
        run = make(payload, shared, lambda content: pipe.send((Note, content)))
        pipe.send((Ready, None))
        while True:
            content = pipe.recv()
            try:
                answer: tuple[Any, Any] = (Done, run(content))
            except Exception:
                # The parent decides what a failure means; nothing is swallowed.
                answer = (Failed, traceback.format_exc())
            pipe.send(answer)
