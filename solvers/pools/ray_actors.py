"""A pool like ``pools.process.Pool`` on a Ray cluster: one actor per core.

Ray chooses the cluster: ``RAY_ADDRESS`` names one; without it Ray uses the one that
runs on this machine, or starts one. hetopt must be installed on every node. If a node
dies, its tasks are reported as ``Died``, and the other actors go on.
"""

from __future__ import annotations

import logging
import threading
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetopt.errors import InputError
from hetopt.solvers.pools.process import Died, Done, Failed, Note

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.solvers.pools.process import Event

#: Methods of an actor that run at once: a task, its notes, the shared number.
_THREADS = 3
#: Seconds after which ``listen`` returns without a note of the running task.
_LISTEN_S = 5.0


class RayPool:
    """Actors that call ``make(payload, shared, say)`` once, then its result per task.

    Parameters
    ----------
    size
        Number of actors; None for one per core of the cluster.
    make
        Importable on every node; returns the function that runs a task.
    payload
        Picklable; sent to the cluster once.

    Raises
    ------
    InputError
        Ray is not installed, or cannot reach the cluster.
    """

    def __init__(
        self,
        size: int | None,
        make: Callable[..., Callable[[Any], Any]],
        payload: Any,
    ) -> None:
        self._workers: list[_WorkerActor] = []
        self._ray, self._owned = _connected()
        self._make = make
        self.shared = _Broadcast()
        try:
            self._payload = self._ray.put(payload)
            remote = self._ray.remote(num_cpus=1, max_concurrency=_THREADS)
            self._actor = remote(_Runner)
            cores = int(self._ray.cluster_resources().get("CPU", 1))
            count = max(1, cores if size is None else min(size, cores))
            self._workers += [self._start() for _ in range(count)]
        except BaseException:
            self.close()
            raise
        self.shared.actors = [worker.actor for worker in self._workers]

    @property
    def idle(self) -> int:
        """Number of actors without a task."""
        return sum(worker.task is None for worker in self._workers)

    def submit(self, task: int, content: Any) -> None:
        """Give a task to an idle actor; raises RuntimeError if there is none."""
        for worker in self._workers:
            if worker.task is None:
                worker.task = task
                worker.answer = worker.actor.run.remote(content)
                worker.notes = worker.actor.listen.remote()
                return
        msg = "no worker is idle"
        raise RuntimeError(msg)

    def collect(self, timeout_s: float) -> list[Event]:
        """Wait for events, at most ``timeout_s`` seconds, and return them."""
        busy = {}
        for worker in self._workers:
            if worker.task is not None:
                busy[worker.answer] = worker
                busy[worker.notes] = worker
        if not busy:
            return []
        self._ray.wait(list(busy), timeout=timeout_s)
        ready, _ = self._ray.wait(list(busy), num_returns=len(busy), timeout=0)
        events: list[Event] = []
        for worker in dict.fromkeys(busy[reference] for reference in ready):
            events += self._read(worker, set(ready))
        return events

    def close(self) -> None:
        """End all actors, busy or not; end the connection if the pool began it."""
        for worker in self._workers:
            with suppress(Exception):
                self._ray.kill(worker.actor)
        if self._owned:
            self._ray.shutdown()

    def _start(self) -> _WorkerActor:
        actor = self._actor.remote(self._make, self._payload, self.shared.value)
        return _WorkerActor(actor=actor)

    def _read(self, worker: _WorkerActor, ready: set[Any]) -> list[Event]:
        """Return all events of an actor; its answer comes after its last notes."""
        task = worker.task
        if task is None:
            return []
        events: list[Event] = []
        try:
            if worker.answer in ready:
                # The actor ends its last listen() when the task ends.
                said = self._ray.get(worker.notes)
                done, content = self._ray.get(worker.answer)
                events += [Note(task, note) for note in said]
                rest = self._ray.get(worker.actor.rest.remote())
                events += [Note(task, note) for note in rest]
                events.append(Done(task, content) if done else Failed(task, content))
                worker.task = None
            else:
                said = self._ray.get(worker.notes)
                events += [Note(task, note) for note in said]
                worker.notes = worker.actor.listen.remote()
        except self._ray.exceptions.RayError:
            events.append(Died(task))
            self._replace(worker)
        return events

    def _replace(self, worker: _WorkerActor) -> None:
        """Start another actor if a core is free for it, or if none is left."""
        self._workers.remove(worker)
        with suppress(Exception):
            self._ray.kill(worker.actor)
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        if len(self._workers) < max(cores, 1):
            self._workers.append(self._start())
        self.shared.actors = [other.actor for other in self._workers]


def _connected() -> tuple[Any, bool]:
    """Return the module ``ray``, connected, and whether it was connected here."""
    try:
        import ray
    except ImportError as error:
        msg = "Ray is not installed: pip install '.[ray]' in hetopt's source"
        raise InputError(msg, field="--executor") from error
    if ray.is_initialized():
        return ray, False
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        lines = (line for line in str(error).splitlines() if line.strip())
        msg = f"Ray cannot reach a cluster: {next(lines, type(error).__name__)}"
        raise InputError(msg, field="--executor") from error
    return ray, True


class _Broadcast:
    """A whole number that is sent to all actors when it changes."""

    def __init__(self) -> None:
        self._value = 0
        self.actors: list[Any] = []

    @property
    def value(self) -> int:
        """The number."""
        return self._value

    @value.setter
    def value(self, value: int) -> None:
        if value != self._value:
            self._value = value
            for actor in self.actors:
                actor.share.remote(value)


@dataclass(slots=True)
class _SharedActor:
    value: int


class _Runner:
    """An actor: runs one task at a time, and exchanges messages meanwhile."""

    def __init__(
        self, make: Callable[..., Callable[[Any], Any]], payload: Any, value: int
    ) -> None:
        self._shared = _SharedActor(value)
        self._said: list[Any] = []
        self._news = threading.Condition()
        self._running = False
        self._run = make(payload, self._shared, self._say)

    def run(self, content: Any) -> tuple[bool, Any]:
        """Run a task; return True with its value, or False with its traceback."""
        with self._news:
            self._running = True
        try:
            return True, self._run(content)
        except Exception:
            return False, traceback.format_exc()
        finally:
            with self._news:
                self._running = False
                self._news.notify_all()

    def listen(self) -> list[Any]:
        """Wait for a note of the task, or its end; return the new notes."""
        with self._news:
            self._news.wait_for(
                lambda: self._said or not self._running, timeout=_LISTEN_S
            )
            return self.rest()

    def rest(self) -> list[Any]:
        """Return the notes that were not returned before."""
        said, self._said = self._said, []
        return said

    def share(self, value: int) -> None:
        """Receive the shared number."""
        self._shared.value = value

    def _say(self, content: Any) -> None:
        with self._news:
            self._said.append(content)
            self._news.notify_all()


@dataclass(slots=True, eq=False)
class _WorkerActor:
    actor: Any
    task: int | None = None
    answer: Any = None
    notes: Any = None
