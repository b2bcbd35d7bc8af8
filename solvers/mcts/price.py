"""The closed form of a complete prefix of decisions, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.compiled import step
from hetopt.cost.table import LONGEST_NS
from hetopt.formulations.program import LONGEST, PERIOD_SCALE
from hetopt.solvers.arrays.program import (
    FORWARD,
    KAPPA,
    LAYOUT,
    LEAD,
    OMEGA,
    SYNC,
    SYNC_FIXED,
    TAU,
    TRAIL,
)
from hetopt.solvers.mcts.data import (
    ACROSS,
    GPIPE,
    INSIDE,
    TIED,
    L,
    P,
)
from hetopt.solvers.mcts.memory import stage_fits
from hetopt.solvers.mcts.state import COUNT, Q

if TYPE_CHECKING:
    from hetopt.solvers.mcts.data import Space
    from hetopt.solvers.mcts.state import State

#: No plan: a stage does not fit into memory.
TOO_LARGE = -1
#: Rows of ``State.times``.
_TAU, _KAPPA, _DELTA = range(3)


@step
def price(space: Space, state: State) -> int:
    """Return the objective in 1 / PERIOD_SCALE ticks, as ``assembly.value_of`` does.

    TOO_LARGE where h-1f1b, whose warm-up counts only a complete plan has, asks for
    more memory than there is.
    """
    at, facts, times = state.at, space.facts, state.times
    stages, q = facts[P], space.counts[at[Q]]
    size, edge_at = space.layouts[at[Q], 0], space.layouts[at[Q], 1]
    classes = size * size
    row = (OMEGA - KAPPA) * classes * _classes(space, at[Q])
    fill = most_sync = slow_forward = slow_backward = link = longest = 0
    stage = left = 0
    first_sync = last_sync = 0
    for turn in range(at[COUNT]):
        o = state.chosen[turn]
        option = space.option[o]
        for _ in range(state.hosted[turn]):
            right = left + state.units[stage]
            tau = space.sums[TAU, o, right] - space.sums[TAU, o, left]
            forward = space.sums[FORWARD, o, right] - space.sums[FORWARD, o, left]
            sync = space.sums[SYNC, o, right] - space.sums[SYNC, o, left]
            sync += option[SYNC_FIXED]
            if stage == 0:
                tau += option[LEAD + TAU]
                forward += option[LEAD + FORWARD]
                sync += option[LEAD + SYNC]
            if stage == stages - 1:
                tau += option[TRAIL + TAU]
                forward += option[TRAIL + FORWARD]
                sync += option[TRAIL + SYNC]
                last_sync = sync
            if stage == 0:
                first_sync = sync
            most_sync = max(most_sync, sync)
            slow_forward = max(slow_forward, forward)
            slow_backward = max(slow_backward, tau - forward)
            times[_TAU, stage] = tau
            fill += tau
            longest = max(longest, tau)
            if stage + 1 < stages:
                crosses = stage + 1 == _end(state, turn)
                after = state.chosen[turn + 1] if crosses else o
                where = edge_at + space.cut[right] * classes
                where += option[LAYOUT] * size + space.option[after, LAYOUT]
                kappa = space.edge[where]
                times[_KAPPA, stage] = kappa
                times[_DELTA, stage] = facts[ACROSS] if crosses else facts[INSIDE]
                fill += 2 * kappa
                link = max(link, space.edge[where + row])
            left = right
            stage += 1
    if facts[TIED]:
        here = space.option[state.chosen[0], LAYOUT]
        there = space.option[state.chosen[at[COUNT] - 1], LAYOUT]
        tied = space.tied[space.layouts[at[Q], 2] + here * size + there]
        most_sync = max(most_sync, first_sync + tied, last_sync + tied)
    if fill + most_sync > LONGEST_NS or max(longest, link) > LONGEST_NS // q:
        # No plan takes so long; its objective could exceed 64 bits.
        return LONGEST + 1
    fixed = PERIOD_SCALE * (fill + most_sync)
    if facts[GPIPE]:
        pace = max(slow_forward, link) + max(slow_backward, link)
        return int(fixed + PERIOD_SCALE * (q - 1) * pace)
    if len(space.thresholds) and not _adapt(space, state, longest):
        return TOO_LARGE
    return int(fixed + (q - 1) * _period(state, stages, max(longest, link)))


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
    """Add to delta what times ask for (HAPT, Eq. 2); whether the warm-ups fit."""
    at, times, stages = state.at, state.times, space.facts[P]
    for stage in range(stages - 1):
        longest = max(longest, times[_KAPPA, stage])
    flight = 1
    right = space.facts[L]
    stage = stages - 1
    for turn in range(at[COUNT] - 1, -1, -1):
        o = state.chosen[turn]
        for _ in range(state.hosted[turn]):
            if stage < stages - 1:
                for threshold in space.thresholds:
                    times[_DELTA, stage] += threshold * times[_KAPPA, stage] > longest
                flight += times[_DELTA, stage]
            left = right - state.units[stage]
            inflight = min(flight, space.counts[at[Q]])
            if not stage_fits(space, o, stage, left, right, inflight):
                return False
            right = left
            stage -= 1
    return True


@step
def _period(state: State, stages: int, least: int) -> int:
    """Return lambda in 1 / PERIOD_SCALE ticks, rounded up.

    ``schedule.period.period_by_recursion`` with fractions of whole numbers.
    """
    times = state.times
    limit, scale = least, 1
    while True:
        worst, worst_scale = 0, 1
        length = shift = 0
        for stage in range(stages):
            if stage:
                length += 2 * times[_KAPPA, stage - 1]
                shift += times[_DELTA, stage - 1]
                if length * scale <= shift * limit:
                    length = shift = 0
            length += times[_TAU, stage]
            window = shift + 1
            if length * scale > window * limit and (
                length * worst_scale > worst * window
            ):
                worst, worst_scale = length, window
        if not worst:
            return -((-PERIOD_SCALE * limit) // scale)
        limit, scale = worst, worst_scale
