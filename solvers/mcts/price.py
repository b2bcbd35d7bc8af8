"""The exact closed form of a complete prefix of decisions."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from hetopt.base.compiled import step
from hetopt.cost.table.ticks import LONGEST_NS
from hetopt.formulations.scale import LONGEST, PERIOD_SCALE
from hetopt.solvers.arrays.costs import Edge, Option
from hetopt.solvers.arrays.stages import ends_of, with_units
from hetopt.solvers.mcts.data import SpaceFact
from hetopt.solvers.mcts.memory import stage_fits
from hetopt.solvers.mcts.state import At

if TYPE_CHECKING:
    from hetopt.solvers.mcts.data import Space
    from hetopt.solvers.mcts.state import State

#: No plan: a stage does not fit into memory.
TOO_LARGE = -1


class _Time(IntEnum):
    """Rows of ``State.times``."""

    TAU, KAPPA, DELTA = range(3)


@step
def price(space: Space, state: State) -> int:
    """Return the objective in 1 / PERIOD_SCALE ticks, as ``assembly.value_of`` does.

    TOO_LARGE if a stage does not fit under h-1f1b, where only a complete plan
    determines warm-up counts.
    """
    at, facts, times = state.at, space.facts, state.times
    stages, q = facts[SpaceFact.P], space.counts[at[At.Q]]
    fill = most_sync = slow_forward = slow_backward = link = longest = 0
    stage = left = 0
    first_sync = last_sync = 0
    for turn in range(at[At.COUNT]):
        o = state.chosen[turn]
        for _ in range(state.hosted[turn]):
            right = left + state.units[stage]
            ends = ends_of(space.option[o], stage == 0, stage == stages - 1)
            own = with_units(ends, space.sums, o, left, right)
            if stage == stages - 1:
                last_sync = own.sync
            if stage == 0:
                first_sync = own.sync
            most_sync = max(most_sync, own.sync)
            slow_forward = max(slow_forward, own.forward)
            slow_backward = max(slow_backward, own.tau - own.forward)
            times[_Time.TAU, stage] = own.tau
            fill += own.tau
            longest = max(longest, own.tau)
            if stage + 1 < stages:
                link = max(link, _cross(space, state, turn, stage, right))
                fill += 2 * times[_Time.KAPPA, stage]
            left = right
            stage += 1
    if facts[SpaceFact.TIED]:
        here = space.option[state.chosen[0], Option.LAYOUT]
        there = space.option[state.chosen[at[At.COUNT] - 1], Option.LAYOUT]
        size, begin = space.layouts[at[At.Q], 0], space.layouts[at[At.Q], 2]
        tied = space.tied[begin + here * size + there]
        most_sync = max(most_sync, first_sync + tied, last_sync + tied)
    if fill + most_sync > LONGEST_NS or max(longest, link) > LONGEST_NS // q:
        # Longer than any plan may take; the objective could exceed 64 bits.
        return LONGEST + 1
    fixed = PERIOD_SCALE * (fill + most_sync)
    if facts[SpaceFact.GPIPE]:
        pace = max(slow_forward, link) + max(slow_backward, link)
        return int(fixed + PERIOD_SCALE * (q - 1) * pace)
    if len(space.thresholds) and not _adapt(space, state, longest):
        return TOO_LARGE
    return int(fixed + (q - 1) * _period(state, stages, max(longest, link)))


@step
def _cross(space: Space, state: State, turn: int, stage: int, cut: int) -> int:
    """Record kappa and delta of the boundary after a stage; return its omega."""
    i, o = state.at[At.Q], state.chosen[turn]
    size, edge_at = space.layouts[i, 0], space.layouts[i, 1]
    classes = size * size
    crosses = stage + 1 == _end(state, turn)
    after = state.chosen[turn + 1] if crosses else o
    where = edge_at + space.cut[cut] * classes
    where += space.option[o, Option.LAYOUT] * size + space.option[after, Option.LAYOUT]
    delta = SpaceFact.ACROSS if crosses else SpaceFact.INSIDE
    state.times[_Time.KAPPA, stage] = space.edge[where]
    state.times[_Time.DELTA, stage] = space.facts[delta]
    row = (Edge.OMEGA - Edge.KAPPA) * classes * _classes(space, i)
    return int(space.edge[where + row])


@step
def _classes(space: Space, i: int) -> int:
    """Return the number of cut classes."""
    size, begin = space.layouts[i, 0], space.layouts[i, 1]
    end = len(space.edge)
    if i + 1 < len(space.layouts):
        end = space.layouts[i + 1, 1]
    return int((end - begin) // (2 * size * size))


@step
def _end(state: State, turn: int) -> int:
    end = 0
    for i in range(turn + 1):
        end += state.hosted[i]
    return end


@step
def _adapt(space: Space, state: State, longest: int) -> bool:
    """Raise delta as times require (HAPT, Eq. 2); return whether the warm-ups fit."""
    at, times, stages = state.at, state.times, space.facts[SpaceFact.P]
    for stage in range(stages - 1):
        longest = max(longest, times[_Time.KAPPA, stage])
    flight = 1
    right = space.facts[SpaceFact.L]
    stage = stages - 1
    for turn in range(at[At.COUNT] - 1, -1, -1):
        o = state.chosen[turn]
        for _ in range(state.hosted[turn]):
            if stage < stages - 1:
                for threshold in space.thresholds:
                    times[_Time.DELTA, stage] += (
                        threshold * times[_Time.KAPPA, stage] > longest
                    )
                flight += times[_Time.DELTA, stage]
            left = right - state.units[stage]
            inflight = min(flight, space.counts[at[At.Q]])
            if not stage_fits(space, o, stage, left, right, inflight):
                return False
            right = left
            stage -= 1
    return True


@step
def _period(state: State, stages: int, least: int) -> int:
    """Return lambda in 1 / PERIOD_SCALE ticks, rounded up.

    It is ``schedule.period.period_by_recursion`` in integers.
    """
    times = state.times
    limit, scale = least, 1
    while True:
        worst, worst_scale = 0, 1
        length = shift = 0
        for stage in range(stages):
            if stage:
                length += 2 * times[_Time.KAPPA, stage - 1]
                shift += times[_Time.DELTA, stage - 1]
                if length * scale <= shift * limit:
                    length = shift = 0
            length += times[_Time.TAU, stage]
            window = shift + 1
            if length * scale > window * limit and (
                length * worst_scale > worst * window
            ):
                worst, worst_scale = length, window
        if not worst:
            return -((-PERIOD_SCALE * limit) // scale)
        limit, scale = worst, worst_scale
