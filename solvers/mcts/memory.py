"""Whether the stages of a prefix fit into memory; compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.compiled import step
from hetopt.solvers.arrays.program import ACTIVE, FREE, LEAD, PEAK, STATE, TRAIL
from hetopt.solvers.mcts.data import ACROSS, GPIPE, INSIDE, P
from hetopt.solvers.mcts.state import COUNT, Q

if TYPE_CHECKING:
    from hetopt.solvers.mcts.data import Space
    from hetopt.solvers.mcts.state import State


@step
def least_flight(space: Space, state: State, turn: int, stage: int) -> int:
    """Return the micro-batches in flight on a stage of one cluster.

    Under h-1f1b the fewest there can be; only a complete plan says how many.
    """
    facts, q = space.facts, space.counts[state.at[Q]]
    if facts[GPIPE]:
        return int(q)
    crossings = state.at[COUNT] - 1 - turn
    flight = 1 + facts[INSIDE] * (facts[P] - 1 - stage)
    return int(min(q, flight + (facts[ACROSS] - facts[INSIDE]) * crossings))


@step
def stage_fits(
    space: Space, o: int, stage: int, left: int, right: int, flight: int
) -> bool:
    """Whether a stage with option ``o`` fits into memory.

    Parameters
    ----------
    left, right
        It holds the body units left .. right - 1.
    flight
        Micro-batches in flight.
    """
    peak = 0
    for u in range(left, right):
        peak = max(peak, space.temporary[o, u])
    return spare_bytes(space, o, stage, left, right, peak, flight) >= 0


@step
def spare_bytes(
    space: Space, o: int, stage: int, left: int, right: int, peak: int, flight: int
) -> int:
    """Return the memory that a stage leaves; negative if it is too large.

    Parameters
    ----------
    peak
        Largest temporary of its body units.
    """
    option = space.option[o]
    held = space.sums[STATE, o, right] - space.sums[STATE, o, left]
    active = space.sums[ACTIVE, o, right] - space.sums[ACTIVE, o, left]
    if stage == 0:
        held += option[LEAD + STATE]
        active += option[LEAD + ACTIVE]
        peak = max(peak, option[LEAD + PEAK])
    if stage == space.facts[P] - 1:
        held += option[TRAIL + STATE]
        active += option[TRAIL + ACTIVE]
        peak = max(peak, option[TRAIL + PEAK])
    return int(option[FREE] - held - peak - flight * active)
