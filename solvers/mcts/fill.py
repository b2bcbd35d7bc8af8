"""Layers for stages whose clusters and strategies are known; compiled.

For one lambda the stages take units from the first one on, each as many as memory and
the recursion of MODEL.md section 4 permit: E of a stage, which includes the delay from
slow stages before it, is at most lambda. Bisection finds the least lambda at which all
units are placed. This is a deterministic heuristic: it proves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.compiled import step
from hetopt.solvers.arrays.costs import Option, Sum
from hetopt.solvers.mcts.data import SpaceFact
from hetopt.solvers.mcts.memory import least_flight, spare_bytes
from hetopt.solvers.mcts.state import At

if TYPE_CHECKING:
    from hetopt.solvers.mcts.data import Space
    from hetopt.solvers.mcts.state import State

#: Bisection ends if lambda is known up to 1 / _CLOSE of it.
_CLOSE = 512
#: Number of cuts among which the cheapest is taken: a layer in blocks has three.
_BACK = 3
#: Longest lambda that is tried, in ns.
_LONGEST = 1 << 52


@step
def fill(space: Space, state: State) -> bool:
    """Give every stage its units; False if no lambda permits that."""
    low, high = 0, 1 << 20
    while not _packs(space, state, high):
        low, high = high, 2 * high
        if high > _LONGEST:
            return False
    while high - low > 1 and (high - low) * _CLOSE > high:
        middle = (low + high) // 2
        if _packs(space, state, middle):
            high = middle
        else:
            low = middle
    return _packs(space, state, high)


@step
def _packs(space: Space, state: State, period: int) -> bool:
    """Whether all units are placed at this lambda; write the places to ``state``."""
    at, facts = state.at, space.facts
    stages, length = facts[SpaceFact.P], facts[SpaceFact.L]
    size, edge_at = space.layouts[at[At.Q], 0], space.layouts[at[At.Q], 1]
    stage = left = excess = 0
    before = -1
    for turn in range(at[At.COUNT]):
        o = state.chosen[turn]
        option, tau = space.option[o], space.sums[Sum.TAU, o]
        for i in range(state.hosted[turn]):
            inherited = 0
            if stage and not facts[SpaceFact.GPIPE]:
                where = edge_at + space.cut[left] * size * size
                where += (
                    space.option[before, Option.LAYOUT] * size + option[Option.LAYOUT]
                )
                delta = facts[SpaceFact.INSIDE] if i else facts[SpaceFact.ACROSS]
                inherited = max(0, excess + 2 * space.edge[where] - delta * period)
            fixed = inherited
            if stage == 0:
                fixed += option[Option.LEAD + Sum.TAU]
            if stage == stages - 1:
                fixed += option[Option.TRAIL + Sum.TAU]
            flight = least_flight(space, state, turn, stage)
            most = length - (stages - 1 - stage)
            right, peak = left, 0
            while right < most:
                time = tau[right + 1] - tau[left] + fixed
                if time > period:
                    break
                peak = max(peak, space.temporary[o, right])
                if spare_bytes(space, o, stage, left, right + 1, peak, flight) < 0:
                    break
                right += 1
            if right == left:
                return False
            if stage < stages - 1:
                after = o if i + 1 < state.hosted[turn] else state.chosen[turn + 1]
                right = _cut_back(space, state, o, after, left, right)
            excess = tau[right] - tau[left] + fixed
            state.units[stage] = right - left
            left = right
            before = o
            stage += 1
    return bool(left == length)


@step
def _cut_back(
    space: Space, state: State, o: int, after: int, left: int, right: int
) -> int:
    """Return the cheapest of the last few cuts at which a stage may end.

    Parameters
    ----------
    o, after
        Options of the stage and of the next one.
    left, right
        Units before the stage, and after as many as it can take.
    """
    i = state.at[At.Q]
    size, edge_at = space.layouts[i, 0], space.layouts[i, 1]
    where = (
        edge_at
        + space.option[o, Option.LAYOUT] * size
        + space.option[after, Option.LAYOUT]
    )
    best = right
    for cut in range(right - 1, max(left, right - _BACK), -1):
        here = space.edge[where + space.cut[cut] * size * size]
        if here < space.edge[where + space.cut[best] * size * size]:
            best = cut
    return best
