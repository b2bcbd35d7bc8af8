"""Tasks that this process does, with help from other processes if they take long."""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from hetopt.errors import SolverError
from hetopt.solvers.pools.process import Done, Failed, Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_Task = TypeVar("_Task")

#: Seconds that this process works before it starts helpers, which takes a second.
ALONE_S = 1.5
#: Seconds to wait for helpers before checking again.
_TURN_S = 1.0


class WorkSharing:
    """Does tasks from the front of a list while helpers do those from its end.

    Parameters
    ----------
    helpers
        Most processes to start.
    make, payload
        As for ``hetopt.solvers.pools.process.Pool``.
    """

    def __init__(
        self,
        helpers: int,
        make: Callable[..., Callable[[Any], Any]],
        payload: Any,
        *,
        alone_s: float = ALONE_S,
    ) -> None:
        self._helpers = helpers
        self._make = make
        self._payload = payload
        self._run = make(payload, None, lambda content: None)
        self._left_s = alone_s
        self._pool: Pool | None = None

    def perform(self, tasks: Sequence[_Task]) -> Iterator[tuple[_Task, Any]]:
        """Yield each task with its result when it is done.

        Raises
        ------
        SolverError
            A helper failed.
        """
        waiting = deque(tasks)
        running: dict[int, _Task] = {}
        number = 0
        while waiting or running:
            while self._help(len(waiting)) and self._pool is not None:
                number += 1
                running[number] = waiting.pop()
                self._pool.submit(number, running[number])
            if waiting:
                task, began = waiting.popleft(), time.monotonic()
                value = self._run(task)
                self._left_s -= time.monotonic() - began
                yield task, value
            if running and self._pool is not None:
                for event in self._pool.collect(0.0 if waiting else _TURN_S):
                    task = running.pop(event.task)
                    if isinstance(event, Failed):
                        msg = f"{task} failed:\n{event.trace}"
                        raise SolverError(msg)
                    if isinstance(event, Done):
                        yield task, event.value
                    else:
                        # Its process died, maybe out of memory: start no more helpers.
                        self._helpers = 0
                        waiting.append(task)

    def _help(self, tasks: int) -> bool:
        """Whether a helper is free for one of ``tasks`` tasks; start helpers first."""
        if tasks < 2 or self._left_s >= 0 or not self._helpers:
            return False
        if multiprocessing.current_process().daemon:
            return False  # A daemon may not have children.
        if self._pool is None:
            self._pool = Pool(self._helpers, self._make, self._payload)
        return self._pool.idle > 0

    def close(self) -> None:
        """End the helpers, busy or not."""
        if self._pool is not None:
            self._pool.close()
