"""Opens the pool of a search: how many workers it has, and where they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.base.machine import cores
from hetopt.solvers.pools.growing import ALONE_S, GrowingPool
from hetopt.solvers.pools.process import InlinePool, Pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.solvers.params import RaceParams
    from hetopt.solvers.pools.ray_actors import RayPool

    AnyPool = Pool | InlinePool | GrowingPool | RayPool


#: Each worker takes a quarter of a gigabyte; more than a few per core gain nothing.
_PER_CORE = 4
#: CPU seconds for sending a table to a worker, per strategy of the table.
_SENDING_S = 1e-5


def open_pool(
    params: RaceParams,
    make: Callable[..., Callable[[Any], Any]],
    payload: Any,
    *,
    growing: bool = False,
    strategies: int = 0,
    alone_s: float = ALONE_S,
) -> AnyPool:
    """Start the workers, at once or later; with one job this process works alone.

    Parameters
    ----------
    growing
        Whether this process may work alone at first: a tree has many searches that
        end before workers are ready.
    strategies
        Strategies in the payload's table: with more, this process works alone longer.
    alone_s
        CPU seconds that it works alone in any case.
    """
    jobs = params.jobs
    alone_s += _SENDING_S * strategies
    if params.executor == "ray":
        from hetopt.solvers.pools.ray_actors import RayPool

        return RayPool(jobs, make, payload)
    if jobs is not None and jobs <= 1:
        return InlinePool(make, payload)
    if growing:
        return GrowingPool(worker_count(jobs), make, payload, alone_s=alone_s)
    return Pool(worker_count(jobs), make, payload)


def worker_count(jobs: int | None) -> int:
    """Return the number of workers for ``jobs``; None: one per core."""
    return cores() if jobs is None else min(max(jobs, 1), most_workers())


def most_workers() -> int:
    """Return the most workers that this machine gets, even if the user wants more."""
    return _PER_CORE * cores()
