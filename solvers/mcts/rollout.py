"""Random rollouts, from a prefix of decisions to a plan; compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.compiled import step
from hetopt.solvers.arrays.costs import Sum
from hetopt.solvers.mcts.data import SpaceFact
from hetopt.solvers.mcts.moves import choices, ends, take
from hetopt.solvers.mcts.state import At, Phase, draw

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hetopt.solvers.mcts.data import Space
    from hetopt.solvers.mcts.state import State

    Ints = NDArray[np.int64] | NDArray[np.int32]

#: Random strategies of which the quickest is picked.
_ENTRANTS = 4


@step
def roll_out(space: Space, state: State) -> None:
    """Make all remaining decisions at random."""
    while state.at[At.PHASE] < Phase.LEAF:
        if state.at[At.PHASE] == Phase.SPLIT:
            spread(space, state)
            continue
        count = choices(space, state)
        if not count:
            state.at[At.PHASE] = Phase.DEAD
            return
        take(space, state, state.moves[pick(space, state, state.moves, 0, count)])


@step
def spread(space: Space, state: State) -> None:
    """Split the units that the cluster has left over its stages, at random.

    First evenly, with the remainder on random stages; then one unit moves between two
    random stages as long as a coin toss is heads. Every split is possible, and even
    ones are most likely. (Most of all splits give some stage several times its share.)
    """
    at = state.at
    first = at[At.STAGE]
    count = ends(state) - first
    extra = at[At.LEFT] % count
    share = at[At.LEFT] // count
    for stage in range(first, first + count):
        units = share
        if draw(state.seed, first + count - stage) < extra:
            units += 1
            extra -= 1
        state.units[stage] = units
    while draw(state.seed, 2):
        source = first + draw(state.seed, count)
        target = first + draw(state.seed, count)
        if state.units[source] > 1:
            state.units[source] -= 1
            state.units[target] += 1
    if space.given[0] >= 0:
        for stage in range(first, first + count):
            state.units[stage] = space.given[stage]
    at[At.STAGE] += count
    at[At.UNITS] += at[At.LEFT]
    at[At.LEFT] = 0
    at[At.PHASE] = Phase.STRATEGY


@step
def pick(space: Space, state: State, moves: Ints, begin: int, count: int) -> int:
    """Return the place of one of ``count`` moves, at random.

    If layers are filled in, a strategy is the quickest of a few random ones; all that
    are offered have room for the cluster's stages.
    """
    best = begin + draw(state.seed, count)
    if space.facts[SpaceFact.FILLED] and state.at[At.PHASE] == Phase.STRATEGY:
        body = space.sums[Sum.TAU, :, space.facts[SpaceFact.L]]
        for _ in range(_ENTRANTS - 1):
            other = begin + draw(state.seed, count)
            if body[moves[other]] < body[moves[best]]:
                best = other
    return best
