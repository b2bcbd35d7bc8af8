"""Monte Carlo tree search (HetAuto, Algorithm 1) for one p: a sub-tree of its own.

The nodes lie in flat arrays. A node is *opened* when the search first goes on from
it: its choices are listed, and tried one by one in random order. Once all are tried,
the child of the largest UCB is followed.
"""

from __future__ import annotations

from enum import IntEnum
from math import inf, log, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.base.compiled import kernel, step
from hetopt.cost.table.ticks import TICK_S
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.solvers.mcts.data import SpaceFact
from hetopt.solvers.mcts.moves import choices, take
from hetopt.solvers.mcts.polish import polish
from hetopt.solvers.mcts.price import TOO_LARGE, price
from hetopt.solvers.mcts.rollout import pick, roll_out
from hetopt.solvers.mcts.state import At, Phase, restart

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.solvers.mcts.data import Space
    from hetopt.solvers.mcts.state import State

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


class TreeSize(IntEnum):
    """Positions in ``Nodes.size``."""

    NODES, CHOICES = range(2)


class Grown(IntEnum):
    """Positions in what ``grow`` reports."""

    DONE, VALUE, FULL = range(3)


#: A plan is near the cutoff if it exceeds it by at most 1 / _NEAR of it.
_NEAR = 100


class Growth(NamedTuple):
    """How a tree is to grow.

    Attributes
    ----------
    exploration
        lambda of HetAuto's Eq. 1.
    cutoff
        In 1 / PERIOD_SCALE ticks.
    may_widen
        Whether to return if the tree needs more room; if not, the tree keeps its
        size, and rollouts begin at its leaves.
    reference
        0 for the paper's rewards, else a lower bound on the objective, for
        ``standing``.
    """

    exploration: float
    iterations: int
    cutoff: int
    may_widen: bool
    reference: int


class Nodes(NamedTuple):
    """A tree; the root is node 0.

    Attributes
    ----------
    visits, reward
        N and Q of HetAuto's Eq. 1: visits of a node, and the sum of its rewards.
    first, branches, tried
        Where the choices of a node begin (-1 before it is opened), how many it has,
        and how many of them, the first ones, have been tried.
    move, child
        Each choice, and the node it leads to once it is tried.
    path
        Nodes of the current iteration, from the root.
    size
        Nodes and choices in use.
    """

    visits: Ints
    reward: Floats
    first: Ints
    branches: NDArray[np.int32]
    tried: NDArray[np.int32]
    move: NDArray[np.int32]
    child: NDArray[np.int32]
    path: Ints
    size: Ints


def new_nodes(nodes: int, branches: int, depth: int) -> Nodes:
    """Return a tree with only a root, with room for ``nodes`` and ``branches``."""
    made = Nodes(
        visits=np.zeros(nodes, dtype=np.int64),
        reward=np.zeros(nodes),
        first=np.full(nodes, -1, dtype=np.int64),
        branches=np.zeros(nodes, dtype=np.int32),
        tried=np.zeros(nodes, dtype=np.int32),
        move=np.zeros(branches, dtype=np.int32),
        child=np.zeros(branches, dtype=np.int32),
        path=np.zeros(depth, dtype=np.int64),
        size=np.zeros(2, dtype=np.int64),
    )
    made.size[TreeSize.NODES] = 1
    return made


@step
def ucb(reward: float, visits: int, parent_visits: int, exploration: float) -> float:
    """Return HetAuto's Eq. 1: Q(s, a) / N(s, a) + lambda sqrt(ln N(s) / N(s, a))."""
    return reward / visits + exploration * sqrt(log(parent_visits) / visits)


@step
def reward_of(value: int) -> float:
    """Return 1 / (1 + l) of an objective in 1 / PERIOD_SCALE ticks; l in seconds."""
    return 1.0 / (1.0 + value / PERIOD_SCALE * TICK_S)


@step
def standing(value: int, reference: int) -> float:
    """Return (reference / value) ** 4, a reward in which small differences show.

    1 / (1 + l) of two plans differs by less than the exploration terms do.
    """
    share = reference / value
    return share * share * share * share


@step
def _select(nodes: Nodes, node: int, exploration: float) -> int:
    """Return the place of the choice with the largest UCB; the first of several."""
    begin = nodes.first[node]
    best, chosen = -inf, begin
    for place in range(begin, begin + nodes.branches[node]):
        child = nodes.child[place]
        value = ucb(
            nodes.reward[child], nodes.visits[child], nodes.visits[node], exploration
        )
        if value > best:
            best, chosen = value, place
    return int(chosen)


@step
def _open(nodes: Nodes, node: int, state: State, count: int) -> None:
    begin = nodes.size[TreeSize.CHOICES]
    nodes.first[node], nodes.branches[node] = begin, count
    for i in range(count):
        nodes.move[begin + i] = state.moves[i]
    nodes.size[TreeSize.CHOICES] += count


@step
def _expand(space: Space, state: State, nodes: Nodes, node: int) -> int:
    """Try a random choice that has not been tried; return its place."""
    begin, tried = nodes.first[node], nodes.tried[node]
    here = begin + tried
    other = pick(space, state, nodes.move, here, nodes.branches[node] - tried)
    nodes.move[here], nodes.move[other] = nodes.move[other], nodes.move[here]
    child = nodes.size[TreeSize.NODES]
    nodes.child[here] = child
    nodes.size[TreeSize.NODES] += 1
    nodes.tried[node] += 1
    return int(here)


@step
def _descend(space: Space, state: State, nodes: Nodes, exploration: float) -> int:
    """Select and expand; return how many nodes the path has."""
    node, depth = 0, 0
    nodes.path[0] = 0
    while state.at[At.PHASE] < Phase.LEAF:
        if nodes.first[node] < 0:
            count = choices(space, state)
            room = len(nodes.move) - nodes.size[TreeSize.CHOICES]
            if count > room or nodes.size[TreeSize.NODES] == len(nodes.visits):
                # No room to grow: the rollout makes the other decisions.
                return depth + 1
            _open(nodes, node, state, count)
        if not nodes.branches[node]:
            state.at[At.PHASE] = Phase.DEAD
            return depth + 1
        new = nodes.tried[node] < nodes.branches[node]
        if new and nodes.size[TreeSize.NODES] == len(nodes.visits):
            return depth + 1
        place = (
            _expand(space, state, nodes, node)
            if new
            else _select(nodes, node, exploration)
        )
        take(space, state, nodes.move[place])
        node = nodes.child[place]
        depth += 1
        nodes.path[depth] = node
        if new:
            return depth + 1
    return depth + 1


@kernel
def grow(
    space: Space,
    state: State,
    nodes: Nodes,
    asked: Growth,
    report: Ints,
) -> None:
    """Iterate until a plan within the cutoff is found, or the tree needs more room.

    If layers are filled in, plans near the cutoff are polished.

    Parameters
    ----------
    report
        Output: iterations done; the objective of the plan in ``state``, or TOO_LARGE;
        whether there is no room for another iteration's nodes.
    """
    report[Grown.DONE], report[Grown.VALUE], report[Grown.FULL] = 0, TOO_LARGE, 0
    most = len(state.moves)
    while report[Grown.DONE] < asked.iterations:
        room = len(nodes.move) - nodes.size[TreeSize.CHOICES]
        if asked.may_widen and (
            room < most or nodes.size[TreeSize.NODES] == len(nodes.visits)
        ):
            report[Grown.FULL] = 1
            return
        restart(space, state)
        depth = _descend(space, state, nodes, asked.exploration)
        roll_out(space, state)
        value = TOO_LARGE
        if state.at[At.PHASE] == Phase.LEAF:
            value = price(space, state)
        near = value != TOO_LARGE and value <= asked.cutoff + asked.cutoff // _NEAR
        if space.facts[SpaceFact.FILLED] and near:
            value = polish(space, state, value)
        reward = 0.0
        if value != TOO_LARGE:
            reward = reward_of(value)
            if asked.reference:
                reward = standing(value, asked.reference)
        for i in range(depth):
            node = nodes.path[i]
            nodes.visits[node] += 1
            nodes.reward[node] += reward
        report[Grown.DONE] += 1
        if value != TOO_LARGE and value <= asked.cutoff:
            report[Grown.VALUE] = value
            return
