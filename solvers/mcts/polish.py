"""Better layers for a complete plan, one unit at a time; compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.compiled import step
from hetopt.solvers.mcts.data import SpaceFact
from hetopt.solvers.mcts.memory import least_flight, stage_fits
from hetopt.solvers.mcts.price import TOO_LARGE, price
from hetopt.solvers.mcts.state import At

if TYPE_CHECKING:
    from hetopt.solvers.mcts.data import Space
    from hetopt.solvers.mcts.state import State


@step
def polish(space: Space, state: State, value: int) -> int:
    """Move single units between stages while that helps; return the objective.

    Parameters
    ----------
    value
        Objective of the plan in ``state``, in 1 / PERIOD_SCALE ticks.
    """
    units, stages = state.units, space.facts[SpaceFact.P]
    improved = True
    while improved:
        improved = False
        for source in range(stages):
            for target in range(stages):
                if source == target or units[source] < 2:
                    continue
                units[source] -= 1
                units[target] += 1
                moved = TOO_LARGE
                if _fits(space, state):
                    moved = price(space, state)
                if moved != TOO_LARGE and moved < value:
                    value = moved
                    improved = True
                else:
                    units[source] += 1
                    units[target] -= 1
    return value


@step
def _fits(space: Space, state: State) -> bool:
    """Whether all stages fit into memory."""
    stage = left = 0
    for turn in range(state.at[At.COUNT]):
        o = state.chosen[turn]
        for _ in range(state.hosted[turn]):
            right = left + state.units[stage]
            flight = least_flight(space, state, turn, stage)
            if not stage_fits(space, o, stage, left, right, flight):
                return False
            left = right
            stage += 1
    return True
