"""The sub-tree of one p, with random numbers of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.decision import Decision
from hetopt.solvers.mcts.price import TOO_LARGE
from hetopt.solvers.mcts.state import At, new_state
from hetopt.solvers.mcts.tree import Grown, Growth, Nodes, TreeSize, grow, new_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetopt.solvers.mcts.data import SearchData
    from hetopt.solvers.mcts.state import State

#: Nodes that a new tree has room for.
_FEW = 1 << 10


class Subtree:
    """Searches the plans of one p.

    Parameters
    ----------
    seed
        Whole numbers; random numbers depend only on them and on p.
    exploration
        lambda of UCB (HetAuto, Eq. 1).
    most_nodes
        Most nodes of the tree; each takes about 40 bytes.
    reference
        0, or a lower bound on the objective for rewards; see ``tree.Growth``.
    """

    def __init__(
        self,
        search_data: SearchData,
        stages: int,
        *,
        seed: Sequence[int],
        exploration: float,
        most_nodes: int,
        reference: int = 0,
    ) -> None:
        space = search_data.at(stages)
        self.search_data, self.space = search_data, space
        words = np.random.SeedSequence([*seed, stages]).generate_state(1, np.uint64)
        self.state: State = new_state(space, int(words[0]))
        self._most = len(self.state.moves)
        self._most_nodes = most_nodes
        self._exploration = exploration
        self._reference = reference
        # One choice per level: recomputation, use of all clusters, q, each cluster and
        # the end of the order; stages, units and strategy of each; units of each stage.
        self._depth = 5 + 4 * len(space.required) + stages
        self.nodes = new_nodes(_FEW, _FEW + self._most, self._depth)
        self._report = np.zeros(3, dtype=np.int64)

    def iterate(
        self, iterations: int, take: Callable[[int, Decision], int], cutoff: int
    ) -> None:
        """Iterate, and pass on the plans within the cutoff.

        Parameters
        ----------
        take
            Called with the objective and the decision of each; returns the new cutoff.
        cutoff
            Largest objective of interest, in 1 / PERIOD_SCALE ticks.
        """
        while iterations:
            asked = Growth(
                self._exploration,
                iterations,
                cutoff,
                len(self.nodes.visits) < self._most_nodes,
                self._reference,
            )
            grow(self.space, self.state, self.nodes, asked, self._report)
            iterations -= int(self._report[Grown.DONE])
            if self._report[Grown.FULL]:
                self._widen()
            if self._report[Grown.VALUE] != TOO_LARGE:
                value = int(self._report[Grown.VALUE])
                cutoff = take(value, self.decision())

    def decision(self) -> Decision:
        """Return the decision of the last iteration."""
        state, space = self.state, self.space
        count, i = int(state.at[At.COUNT]), int(state.at[At.Q])
        options = [self.search_data.options[o] for o in state.chosen[:count]]
        part = self.search_data.parts[i]
        return Decision(
            microbatches=int(space.counts[i]),
            order=tuple(j for j, _ in options),
            strategies=tuple(part.clusters[j].strategies[k] for j, k in options),
            hosted=tuple(int(m) for m in state.hosted[:count]),
            units=self.search_data.chain.with_ends(state.units.tolist()),
        )

    def _widen(self) -> None:
        """Make the tree twice as large."""
        old = self.nodes
        nodes = min(2 * len(old.visits), self._most_nodes)
        wide = new_nodes(nodes, 2 * len(old.move) + self._most, self._depth)
        inner, choices = int(old.size[TreeSize.NODES]), int(old.size[TreeSize.CHOICES])
        sizes = {"move": choices, "child": choices, "path": 0, "size": 2}
        for name in Nodes._fields:
            size = sizes.get(name, inner)
            getattr(wide, name)[:size] = getattr(old, name)[:size]
        self.nodes = wide
