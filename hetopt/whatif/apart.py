"""Tasks in this process, or in separate ones, several at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.base.interruption import released
from hetopt.errors import SolverError
from hetopt.solvers.pools.process import Done, Failed, Note, Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Seconds between two looks for signals.
_TURN_S = 0.1


def run_apart(
    size: int,
    make: Callable[..., Callable[[Any], Any]],
    payload: Any,
    tasks: Sequence[Any],
    take: Callable[[int, Any], bool],
) -> bool:
    """Run tasks in processes, 1: in this one; return whether all were done.

    Parameters
    ----------
    make, payload
        What workers do; see ``Pool``.
    take
        Called with a task's number and result, None if its process died; returns
        whether to go on with the other tasks.

    Raises
    ------
    SolverError
        A task failed.
    """
    try:
        if size > 1:
            return _run_apart(Pool(size, make, payload), tasks, take)
        act = make(payload, None, lambda said: None)
        return all(take(number, act(task)) for number, task in enumerate(tasks))
    except KeyboardInterrupt:
        return False


def _run_apart(
    pool: Pool, tasks: Sequence[Any], take: Callable[[int, Any], bool]
) -> bool:
    waiting, running = list(enumerate(tasks))[::-1], 0
    try:
        while waiting or running:
            while waiting and pool.idle:
                pool.submit(*waiting.pop())
                running += 1
            with released():
                events = pool.collect(_TURN_S)
            for event in events:
                # Nothing else is said by these tasks.
                assert not isinstance(event, Note)
                running -= 1
                if isinstance(event, Failed):
                    raise SolverError(f"a search failed:\n{event.trace}")
                value = event.value if isinstance(event, Done) else None
                if not take(event.task, value):
                    return False
    finally:
        pool.close()
    return True
