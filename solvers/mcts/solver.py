"""The ``mcts`` solver: HetAuto's principle-guided Monte Carlo tree search.

HetAuto section 4.1 (Algorithm 1, Eq. 1, Fig. 3) and section 6: random rollouts, the
reward 1 / (1 + l) of the closed form l in seconds, 0 as soon as a cluster runs out
of memory, and one sub-tree for every p, shared out among processes. Every sub-tree
has its own random numbers and its own share of the iterations, so how many processes
there are changes nothing but the time. Where the paper says nothing: a rollout
spreads a cluster's layers over its stages as ``rollout.spread`` does. How the
space is read, and deviations: see ``mcts.moves``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
#: Iterations where there is neither a time limit nor a number: a minute or less.
ITERATIONS = 2_000_000
#: Seconds that trees in this process grow between two looks at the clock.
_TURN_S = 0.05


def solve(request: Request) -> Result:
    """Look for a plan of small closed form; ``MctsParams`` hold what is its own.

    Raises
    ------
    InputError
        If a principle is relaxed, or warm-up counts are to be chosen.
    """
    search = TreeSearch(request, "mcts", EXPLORATION, ITERATIONS)
    search_data = SearchData.of(request.problem, request.table)
    spec = TreesSpec(
        search_data=search_data,
        seed=request.seed,
        top=request.params.top,
        exploration=search.exploration,
        iterations=shares(search.iterations, search_data.stages),
    )
    return search.run(make, spec, lambda loop: _grow(loop, search_data.stages))


def shares(iterations: int | None, stages: Sequence[int]) -> dict[int, int | None]:
    """Return the iterations of each p: equally many, the first ones one more."""
    if iterations is None:
        return dict.fromkeys(stages)
    each, more = divmod(iterations, max(len(stages), 1))
    return {p: each + (i < more) for i, p in enumerate(stages)}


def _grow(loop: SearchLoop, stages: Sequence[int]) -> None:
    """Share the sub-trees out among the workers, and wait for them."""
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
