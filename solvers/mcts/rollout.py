"""What a rollout decides, from a prefix to a plan, at random; compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.compiled import step
from hetopt.solvers.arrays.program import TAU
from hetopt.solvers.mcts.data import FILLED, L
from hetopt.solvers.mcts.moves import choices, ends, take
from hetopt.solvers.mcts.state import (
    AT_SPLIT,
    AT_STRATEGY,
    DEAD,
    LEAF,
    LEFT,
    PHASE,
    STAGE,
    UNITS,
    draw,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hetopt.solvers.mcts.data import Space
    from hetopt.solvers.mcts.state import State

    Ints = NDArray[np.int64] | NDArray[np.int32]

#: Strategies of which the quickest is picked.
_ENTRANTS = 4


@step
def roll_out(space: Space, state: State) -> None:
    """Decide all that is left at random."""
    while state.at[PHASE] < LEAF:
        if state.at[PHASE] == AT_SPLIT:
            spread(space, state)
            continue
        count = choices(space, state)
        if not count:
            state.at[PHASE] = DEAD
            return
        take(space, state, state.moves[pick(space, state, state.moves, 0, count)])


@step
def spread(space: Space, state: State) -> None:
    """Split the units that the cluster has left over its stages, at random.

    Evenly, with the remainder on random stages; then, as long as a coin says so, one
    unit goes from some stage to another: every split may come, and even ones most
    often. (Of all splits alike most give some stage several times its share.)
    """
    at = state.at
    first = at[STAGE]
    count = ends(state) - first
    extra = at[LEFT] % count
    share = at[LEFT] // count
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
    at[STAGE] += count
    at[UNITS] += at[LEFT]
    at[LEFT] = 0
    at[PHASE] = AT_STRATEGY


@step
def pick(space: Space, state: State, moves: Ints, begin: int, count: int) -> int:
    """Return the place of one of ``count`` moves, at random.

    Where layers are filled in, the quickest of a few strategies: which of them fit
    that many stages is known by then.
    """
    best = begin + draw(state.seed, count)
    if space.facts[FILLED] and state.at[PHASE] == AT_STRATEGY:
        body = space.sums[TAU, :, space.facts[L]]
        for _ in range(_ENTRANTS - 1):
            other = begin + draw(state.seed, count)
            if body[moves[other]] < body[moves[best]]:
                best = other
    return best
