"""Tasks in separate processes, several at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.base.interruption import released
from hetopt.errors import SolverError
from hetopt.solvers.pools.process import Died, Done, Failed, Pool

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
    """Run tasks in several processes; return whether all were done.

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
    pool = Pool(size, make, payload)
    waiting, running = list(enumerate(tasks))[::-1], 0
    try:
        while waiting or running:
            while waiting and pool.idle:
                pool.submit(*waiting.pop())
                running += 1
            with released():
                events = pool.collect(_TURN_S)
            for event in events:
                running -= 1
                match event:
                    case Done():
                        go_on = take(event.task, event.value)
                    case Died():
                        go_on = take(event.task, None)
                    case Failed():
                        raise SolverError(f"a search failed:\n{event.trace}")
                    case _:
                        go_on = True
                if not go_on:
                    return False
    except KeyboardInterrupt:
        return False
    finally:
        pool.close()
    return True
