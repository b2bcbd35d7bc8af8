"""The sub-trees of tree search, as a worker process grows them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetopt.base.deadline import Deadline
from hetopt.solvers.mcts.best_plans import BestPlans
from hetopt.solvers.mcts.data import SearchData
from hetopt.solvers.mcts.subtree import Subtree

if TYPE_CHECKING:
    from collections.abc import Callable


#: Iterations of one tree before the next tree's turn: some milliseconds.
SLICE = 500
#: Nodes of all trees together: 0.7 GB.
MOST_NODES = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class TreesSpec:
    """What every worker gets at its start.

    Attributes
    ----------
    top
        How many best plans of different shapes are wanted.
    exploration
        lambda of UCB (HetAuto, Eq. 1).
    iterations
        Iterations of each p; None: no limit.
    """

    search_data: SearchData
    seed: int
    top: int
    exploration: float
    iterations: dict[int, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowTask:
    """Grow the trees of these p until they are done or time is up.

    Attributes
    ----------
    limit_s
        Seconds for this task; None: no limit.
    """

    stages: tuple[int, ...]
    limit_s: float | None


def make(
    payload: TreesSpec, shared: Any, say: Callable[[Any], None]
) -> Callable[[GrowTask], bool]:
    """Return the function that runs tasks in this process."""
    return TreeWorker(payload, shared, say).run


class TreeWorker:
    """Grows several trees in turn."""

    def __init__(
        self, spec: TreesSpec, shared: Any, say: Callable[[Any], None]
    ) -> None:
        self._spec, self._shared, self._say = spec, shared, say
        self._waiting: deque[_GrowingTree] = deque()
        self._known: set[int] = set()

    def run(self, task: GrowTask) -> bool:
        """Grow the trees; return whether all are done."""
        deadline = Deadline.after(task.limit_s)
        waiting = self._waiting
        for p in task.stages:
            # A task is repeated for another turn, or after a worker was lost.
            if p not in self._known:
                self._known.add(p)
                waiting.append(self._tree(p))
        while waiting:
            tree = waiting.popleft()
            tree.grow(int(self._shared.value))
            if tree.left != 0:
                waiting.append(tree)
            if deadline.is_over():
                break
        return not waiting

    def _tree(self, stages: int) -> _GrowingTree:
        spec = self._spec
        tree = Subtree(
            spec.search_data,
            stages,
            seed=[spec.seed],
            exploration=spec.exploration,
            most_nodes=MOST_NODES // len(spec.search_data.stages),
        )
        best_plans = BestPlans(spec.top, self._say)
        return _GrowingTree(tree, spec.iterations[stages], best_plans)


class _GrowingTree:
    """One tree, and the iterations it has left."""

    def __init__(self, tree: Subtree, left: int | None, best_plans: BestPlans) -> None:
        self.tree, self.left, self._best_plans = tree, left, best_plans

    def grow(self, cutoff: int) -> None:
        """Iterate for one slice.

        Parameters
        ----------
        cutoff
            The cutoff that all processes share. Plans above it are not passed on: they
            cannot be in the result.
        """
        count = SLICE if self.left is None else min(SLICE, self.left)
        if self.left is not None:
            self.left -= count
        best_plans = self._best_plans
        self.tree.iterate(count, best_plans.take, min(best_plans.cutoff, cutoff))
