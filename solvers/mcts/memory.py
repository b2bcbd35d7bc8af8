"""Whether the stages of a prefix fit into memory; compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.compiled import step
from hetopt.solvers.arrays.costs import Option
from hetopt.solvers.arrays.stages import ends_of, with_units
from hetopt.solvers.mcts.data import SpaceFact
from hetopt.solvers.mcts.state import At

if TYPE_CHECKING:
    from hetopt.solvers.mcts.data import Space
    from hetopt.solvers.mcts.state import State


@step
def least_flight(space: Space, state: State, turn: int, stage: int) -> int:
    """Return the micro-batches in flight on a stage of one cluster.

    Under h-1f1b the fewest possible: only a complete plan determines the number.
    """
    facts, q = space.facts, space.counts[state.at[At.Q]]
    if facts[SpaceFact.GPIPE]:
        return int(q)
    crossings = state.at[At.COUNT] - 1 - turn
    flight = 1 + facts[SpaceFact.INSIDE] * (facts[SpaceFact.P] - 1 - stage)
    return int(
        min(q, flight + (facts[SpaceFact.ACROSS] - facts[SpaceFact.INSIDE]) * crossings)
    )


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
    """Return the memory that a stage leaves free; negative if it does not fit.

    Parameters
    ----------
    peak
        Largest temporary of its body units.
    """
    option, last = space.option[o], space.facts[SpaceFact.P] - 1
    ends = ends_of(option, stage == 0, stage == last)
    own = with_units(ends, space.sums, o, left, right)
    held = own.state + max(peak, own.peak) + flight * own.active
    return int(option[Option.FREE_BYTES] - held)
