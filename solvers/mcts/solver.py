"""The ``mcts`` solver: HetAuto's principle-guided Monte Carlo tree search.

HetAuto section 4.1 (Algorithm 1, Eq. 1, Fig. 3) and section 6: random rollouts, the
reward 1 / (1 + l) of the closed form l in seconds, 0 as soon as a cluster runs out
of memory, and one sub-tree for every p, shared out among processes. Every sub-tree
has its own random numbers and its own share of the iterations, so how many processes
there are changes nothing but the time. Where the paper says nothing: a rollout
spreads a cluster's layers over its stages as ``mcts_rollout.spread`` does. How the
space is read, and deviations: see ``mcts.moves``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hetopt.solvers.mcts.data import SearchData
from hetopt.solvers.mcts.task_loop import seek
from hetopt.solvers.mcts.worker import GrowTask, TreesSpec, ensure_compiled, make
from hetopt.solvers.params import MctsParams
from hetopt.solvers.pools.process import InlinePool
from hetopt.solvers.registry import ensure_can, ensure_plans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.cost.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.result import Result
    from hetopt.solvers.mcts.task_loop import SearchLoop
    from hetopt.solvers.params import RaceParams

#: HetAuto section 7.2.
EXPLORATION = 10.0
#: Iterations where there is neither a time limit nor a number: a minute or less.
ITERATIONS = 2_000_000
#: Seconds that trees in this process grow between two looks at the clock.
_TURN_S = 0.05


def solve(
    problem: Problem,
    table: CostTable,
    params: RaceParams,
    *,
    time_limit_s: float | None,
    seed: int,
    cutoff: float | None = None,
) -> Result:
    """Look for a plan of small closed form.

    Parameters
    ----------
    params
        ``MctsParams`` for what only tree search has.
    time_limit_s
        Wall-clock limit; the best plan so far is returned.
    cutoff
        Seconds; plans above it are of no interest.

    Raises
    ------
    InputError
        If a principle is relaxed, or warm-up counts are to be chosen.
    """
    ensure_can("mcts", params.principles)
    ensure_plans("mcts", problem.training.schedule)
    began = time.monotonic()
    ensure_compiled(problem, table, time_limit_s)
    own = params if isinstance(params, MctsParams) else MctsParams()
    iterations = own.iterations
    if iterations is None and time_limit_s is None:
        iterations = ITERATIONS
    search_data = SearchData.of(problem, table)
    spec = TreesSpec(
        search_data=search_data,
        seed=seed,
        top=params.top,
        exploration=EXPLORATION if own.exploration is None else own.exploration,
        iterations=shares(iterations, search_data.stages),
    )
    return seek(
        problem,
        table,
        params,
        solver="mcts",
        make=make,
        payload=spec,
        run=lambda loop: _grow(loop, search_data.stages),
        began=began,
        time_limit_s=time_limit_s,
        cutoff=cutoff,
    )


def shares(iterations: int | None, stages: Sequence[int]) -> dict[int, int | None]:
    """Return the iterations of each p: equally many, the first ones one more."""
    if iterations is None:
        return dict.fromkeys(stages)
    each, more = divmod(iterations, max(len(stages), 1))
    return {p: each + (i < more) for i, p in enumerate(stages)}


def _grow(loop: SearchLoop, stages: Sequence[int]) -> None:
    """Share the sub-trees out among the workers, and wait for them."""
    here = isinstance(loop.pool, InlinePool)
    workers = loop.pool.idle
    groups = [tuple(stages[w::workers]) for w in range(min(workers, len(stages)))]
    waiting = [
        GrowTask(stages=group, limit_s=_TURN_S if here else None) for group in groups
    ]

    def tasks() -> Iterator[GrowTask]:
        while waiting:
            yield waiting.pop()

    def take(task: GrowTask, done: bool) -> None:
        if not done:
            waiting.append(task)

    loop.perform(tasks(), take)
