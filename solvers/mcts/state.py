"""The state of tree search: a prefix of decisions, and its random numbers."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.base.compiled import step
from hetopt.solvers.mcts.data import SpaceFact

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.solvers.mcts.data import Space

    Ints = NDArray[np.int64]


class At(IntEnum):
    """Positions in ``State.at``.

    The next decision (``Phase``), q as an index, number of clusters in the order, place
    of the current one, stages and units decided, units left for the current cluster,
    level of recomputation, whether clusters may stay unused.
    """

    PHASE, Q, COUNT, TURN, STAGE, UNITS, LEFT, LEVEL, PARTIAL = range(9)


class Phase(IntEnum):
    """The next decision. LEAF: the plan is complete. DEAD: there is no plan."""

    LEVEL, USE, Q, ORDER, STAGES, TOTAL, SPLIT, STRATEGY, LEAF, DEAD = range(10)


#: The choice to add no more clusters.
END = -1

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)


class State(NamedTuple):
    """A prefix of decisions.

    Attributes
    ----------
    at
        Numbers named by ``At``.
    order, used
        Clusters along the pipeline, and whether each is among them; length J.
    hosted, chosen
        Stages and option of each cluster in the order; length J.
    units
        Body units of each stage; length p.
    moves
        Choices of the next decision; its length is the most that there can be.
    times
        Scratch for pricing: tau, kappa and delta of each stage; shape (3, p).
    seed
        State of the random numbers; length 1, unsigned.
    """

    at: Ints
    order: Ints
    used: Ints
    hosted: Ints
    chosen: Ints
    units: Ints
    moves: Ints
    times: Ints
    seed: NDArray[np.uint64]


def new_state(space: Space, seed: int) -> State:
    """Return an empty prefix; ``seed`` has 64 bits."""
    stages, clusters = len(space.given), len(space.required)
    most = max(
        len(space.counts),
        clusters + 1,
        stages,
        int(space.facts[SpaceFact.L]),
        space.begins.shape[2] - 1,
        int((space.begins[:, :, -1] - space.begins[:, :, 0]).max(initial=0)),
    )
    return State(
        at=np.zeros(At.PARTIAL + 1, dtype=np.int64),
        order=np.zeros(clusters, dtype=np.int64),
        used=np.zeros(clusters, dtype=np.int64),
        hosted=np.zeros(clusters, dtype=np.int64),
        chosen=np.zeros(clusters, dtype=np.int64),
        units=np.zeros(stages, dtype=np.int64),
        moves=np.zeros(most, dtype=np.int64),
        times=np.zeros((3, stages), dtype=np.int64),
        seed=np.array([seed], dtype=np.uint64),
    )


@step
def draw(seed: NDArray[np.uint64], count: int) -> int:
    """Draw a whole number below ``count``: SplitMix64 (Steele et al., 2014)."""
    seed[0] += _GOLDEN
    mixed = seed[0]
    mixed = (mixed ^ (mixed >> _30)) * _FIRST
    mixed = (mixed ^ (mixed >> _27)) * _SECOND
    mixed ^= mixed >> _31
    return int(np.int64(((mixed >> _32) * np.uint64(count)) >> _32))


@step
def restart(space: Space, state: State) -> None:
    """Go back to the root; if strategies are free, that is the choice of q."""
    state.at[:] = 0
    state.at[At.PHASE] = Phase.Q if space.facts[SpaceFact.FREE] else Phase.LEVEL
    state.at[At.PARTIAL] = space.facts[SpaceFact.FREE]
    state.used[:] = 0
