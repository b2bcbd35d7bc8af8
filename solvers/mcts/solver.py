"""The ``mcts`` solver: HetAuto's principle-guided Monte Carlo tree search.

HetAuto section 4.1 (Algorithm 1, Eq. 1, Fig. 3) and section 7.1: random rollouts, the
reward 1 / (1 + l) of the closed form l in seconds, 0 as soon as a cluster runs out
of memory, and one sub-tree for every p, distributed among processes. Every sub-tree
has its own random numbers and its own share of the iterations, so with a given number
of iterations the plan does not depend on the number of processes. The paper does not
say how a rollout divides a cluster's layers among its stages: see ``rollout.spread``.
The decision tree, and deviations from the paper: see ``mcts.moves``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.deadline import Stopped
from hetopt.base.run_until import run_until
from hetopt.solvers.mcts.data import SearchData
from hetopt.solvers.mcts.task_loop import TreeSearch
from hetopt.solvers.mcts.worker import GrowTask, TreesSpec, make

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.results.result import Result
    from hetopt.solvers.mcts.task_loop import SearchLoop
    from hetopt.solvers.request import Request

#: HetAuto section 7.2.
EXPLORATION = 10.0
#: Iterations if neither they nor a time limit are given: a minute or less.
ITERATIONS = 2_000_000
#: Seconds that trees in this process grow between two checks of the clock.
_TURN_S = 0.05


def solve(request: Request) -> Result:
    """Look for a plan of small closed form; its own parameters are ``MctsParams``.

    Raises
    ------
    InputError
        If a principle is relaxed, or the schedule leaves warm-up counts free.
    """
    search = TreeSearch(request, "mcts", EXPLORATION, ITERATIONS)
    try:
        # Models with experts have strategies for half a minute of copying.
        search_data = run_until(
            request.deadline, lambda: SearchData.of(request.problem, request.table)
        )
    except Stopped:
        return search.result(ended=False)
    except KeyboardInterrupt:
        return search.result(ended=False, interrupted=True)
    spec = TreesSpec(
        search_data=search_data,
        seed=request.seed,
        top=request.params.top,
        exploration=search.exploration,
        iterations=shares(search.iterations, search_data.stages),
    )
    return search.run(make, spec, lambda loop: _grow(loop, search_data.stages))


def shares(iterations: int | None, stages: Sequence[int]) -> dict[int, int | None]:
    """Return the iterations of each p: equal shares, the first ones one larger."""
    if iterations is None:
        return dict.fromkeys(stages)
    each, more = divmod(iterations, max(len(stages), 1))
    return {p: each + (i < more) for i, p in enumerate(stages)}


def _grow(loop: SearchLoop, stages: Sequence[int]) -> None:
    """Distribute the sub-trees among the workers, and wait for them."""
    workers = loop.pool.idle
    groups = [tuple(stages[w::workers]) for w in range(min(workers, len(stages)))]
    waiting = [
        GrowTask(stages=group, limit_s=_TURN_S if loop.works_here else None)
        for group in groups
    ]

    def tasks() -> Iterator[GrowTask]:
        while waiting:
            yield waiting.pop()

    def take(task: GrowTask, done: bool) -> None:
        if not done:
            waiting.append(task)

    loop.perform(tasks(), take)
