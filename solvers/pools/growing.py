"""A pool that works in this process first, which is enough for most problems.

A worker takes about a second to start, import and load compiled code, and there is
one per core. That is worthwhile only for searches of more than a few seconds. Until
the workers are ready this process goes on.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hetopt.solvers.pools.process import InlinePool, Pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.solvers.pools.process import Event

#: CPU seconds this process works before it starts others.
ALONE_S = 4.0
#: Seconds that a task may take here once workers have been started.
_STARTING_S = 1.0


class GrowingPool:
    """The interface of ``Pool``: one place in this process, later ``size`` workers.

    Parameters
    ----------
    alone_s
        CPU seconds to work in this process first.
    """

    def __init__(
        self,
        size: int,
        make: Callable[..., Callable[[Any], Any]],
        payload: Any,
        *,
        alone_s: float = ALONE_S,
    ) -> None:
        self._size = size
        self._make = make
        self._payload = payload
        self._alone_s = alone_s
        self._began_s = time.process_time()
        self._pool: InlinePool | Pool = InlinePool(make, payload)
        #: Workers that are not ready yet.
        self._coming: Pool | None = None

    @property
    def shared(self) -> Any:
        """A whole number, as ``value``, that all workers can read."""
        return self._pool.shared

    @property
    def idle(self) -> int:
        """Number of places without a task."""
        return self._pool.idle

    @property
    def patience_s(self) -> float | None:
        """Seconds that a task may take at most; None: no limit."""
        if not isinstance(self._pool, InlinePool):
            return None
        return self._alone_s if self._coming is None else _STARTING_S

    @property
    def unheard(self) -> list[Any]:
        """Messages of a task in this process before an exception ended it."""
        return self._pool.unheard if isinstance(self._pool, InlinePool) else []

    def submit(self, task: int, content: Any) -> None:
        """Take a task; raises RuntimeError if there is no place for it."""
        if isinstance(self._pool, InlinePool) and self._pool.idle:
            self._grow()
        self._pool.submit(task, content)

    def collect(self, timeout_s: float) -> list[Event]:
        """Return new events; runs the task of this process first, if there is one."""
        return self._pool.collect(timeout_s)

    def close(self) -> None:
        """End all workers."""
        self._pool.close()
        if self._coming is not None:
            self._coming.close()

    def _grow(self) -> None:
        if self._coming is None:
            if time.process_time() - self._began_s < self._alone_s:
                return
            self._coming = Pool(self._size, self._make, self._payload, wait=False)
        if self._coming.is_ready():
            self._coming.shared.value = self._pool.shared.value
            self._pool, self._coming = self._coming, None
