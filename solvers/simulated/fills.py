"""Least fills of parts of a pipeline, by (clusters, stages, units).

Runs are added one by one, to the pipeline's end or to its beginning. For a given
option and number of stages, the least over the run's units is a sliding-window minimum
along the body. The fill includes g of the first stage, which ends every path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.compiled import kernel, step
from hetopt.solvers.arrays.costs import Fact, Option, Sum
from hetopt.solvers.arrays.windows import INFINITE, slide, slide_back, slide_on
from hetopt.solvers.simulated.runs import (
    Reach,
    bits,
    closing,
    is_in_time,
    opening,
    reach_of,
    run_cap,
)

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs, Ints
    from hetopt.solvers.simulated.bounds import StageLimits
    from hetopt.solvers.simulated.runs import Runs


@kernel
def _suffixes(runs: Runs, most: int, least: Ints, floor: Ints, scratch: Ints) -> None:
    costs = runs.costs
    p, length = costs.facts[Fact.P], costs.facts[Fact.L]
    least[0, 0, length] = 0
    for mask in range((1 << len(costs.host)) - 1):
        for s in range(p):
            first = 1
            while first <= length and least[mask, s, first] >= INFINITE:
                first += 1
            if first > length:
                continue
            for o in runs.leading:
                if not mask >> costs.option[o, Option.CLUSTER] & 1:
                    _end_with(runs, least, (mask, s), o, first, most, floor, scratch)


@step
def _end_with(
    runs: Runs,
    least: Ints,
    state: tuple[int, int],
    o: int,
    first: int,
    most: int,
    floor: Ints,
    scratch: Ints,
) -> None:
    """Put runs of one option before the last s stages on clusters of ``mask``.

    ``state`` is (mask, s); ``first`` is the fewest body units that may be before those
    s stages.
    """
    mask, s = state
    costs, level, ended = runs.costs, runs.level, bits(mask)
    p, length = costs.facts[Fact.P], costs.facts[Fact.L]
    j, tau = costs.option[o, Option.CLUSTER], costs.sums[Sum.FILL, o]
    now, worth = least[mask, s], scratch[0]
    for e in range(first, length + 1):
        worth[e] = INFINITE
        if now[e] < INFINITE:
            worth[e] = now[e] + tau[e]
            if s:
                worth[e] += runs.joint[mask, costs.cut[e], o]
    reach = Reach(0, 0, 0, 0)
    for m in range(1, min(costs.option[o, Option.MOST_STAGES], p - s) + 1):
        if level.caps[ended, o, s + m] < 1:
            break
        fewer, reach = reach, reach_of(runs, o, ended, s + 1, m, reach)
        if not costs.stages_ok[j, m]:
            continue
        cap = run_cap(runs, o, ended, s + 1, m)
        longest = min(reach.wide, cap)
        if longest < m:
            continue
        after = least[mask | 1 << j, s + m]
        extra = costs.facts[Fact.HOPS] * (m - 1) * level.inner[o] if m > 1 else 0
        last = max(0, first - longest)
        slide_back(scratch, first, last, m, longest, min(reach.later, cap), runs.unlike)
        between = is_in_time(runs, o, ended, s + 1, m)
        for y in range(length - m, max(last, 1) - 1, -1):
            if scratch[2, y] >= INFINITE or not between:
                continue
            cost = scratch[2, y] - tau[y] + extra
            if s == 0:
                cost += closing(runs, o, m, False)
            if cost + floor[y] <= most and cost < after[y]:
                after[y] = cost
        if s == 0:
            extra += closing(runs, o, m, True)
        for e in range(max(first, m), min(longest, length) + 1):
            if worth[e] < INFINITE:
                cost = worth[e] + extra
                cost += opening(costs, runs.ends, o, e - fewer.wide)
                if cost <= most and cost < after[0]:
                    after[0] = cost


def suffixes(runs: Runs, most: int) -> Ints:
    """Return the least fill of the pipeline's end; shape (2 ** J, p + 1, L + 1).

    By the clusters used, stages, and the body units *before* it; with none before,
    it is a whole pipeline of as many stages, lead and g included. p is the largest of
    interest, so one table is enough. Infinite if every completion exceeds ``most`` ns.
    """
    table, scratch = _table(runs.costs)
    _suffixes(runs, most, table, _floor(runs.costs, runs.level), scratch)
    return table


def _floor(costs: Costs, level: StageLimits) -> Ints:
    """Return the least time of the first n body units, each on its quickest option."""
    able = level.caps.any(axis=(0, 2))
    unit = np.diff(costs.sums[Sum.FILL][able], axis=1).min(
        axis=0, initial=INFINITE >> 20
    )
    floor: Ints = np.concatenate([[0], np.cumsum(unit)])
    return floor


def _table(costs: Costs) -> tuple[Ints, Ints]:
    """Return an infinite table over clusters, stages and units, and scratch."""
    p, size = int(costs.facts[Fact.P]), int(costs.facts[Fact.L]) + 1
    shape = (1 << len(costs.host), p + 1, size)
    table = np.full(shape, INFINITE, dtype=np.int64)
    return table, np.empty((3, size), dtype=np.int64)


@kernel
def _prefixes(runs: Runs, most: int, rest: Ints, scratch: Ints) -> None:
    costs = runs.costs
    p, clusters = costs.facts[Fact.P], len(costs.host)
    for mask in range(1 << clusters):
        rest[mask, 0, 0] = 0
        ended = clusters - bits(mask)
        for o in runs.leading:
            if not mask >> costs.option[o, Option.CLUSTER] & 1:
                continue
            for s in range(1 if ended else p, p - ended + 1):
                _begin_with(runs, rest, mask, s, o, most, scratch)


@step
def _begin_with(
    runs: Runs, rest: Ints, mask: int, s: int, o: int, most: int, scratch: Ints
) -> None:
    """Let a run of option o end the first s stages, on clusters of ``mask``."""
    costs, level = runs.costs, runs.level
    full = (1 << len(costs.host)) - 1
    ended = len(costs.host) - bits(mask)
    p, length = costs.facts[Fact.P], costs.facts[Fact.L]
    j = costs.option[o, Option.CLUSTER]
    tau, after = costs.sums[Sum.FILL, o], rest[mask, s]
    reach = Reach(0, 0, 0, 0)
    for m in range(1, min(costs.option[o, Option.MOST_STAGES], s) + 1):
        if level.caps[ended, o, p - s + m] < 1:
            break
        fewer, reach = reach, reach_of(runs, o, ended, p - s + 1, m, reach)
        if not costs.stages_ok[j, m]:
            continue
        cap = run_cap(runs, o, ended, p - s + 1, m)
        longest = min(reach.wide, cap)
        if longest < m or (s > m and not is_in_time(runs, o, ended, p - s + 1, m)):
            continue
        extra = costs.facts[Fact.HOPS] * (m - 1) * level.inner[o] if m > 1 else 0
        if not ended:
            extra += closing(runs, o, m, s == m)
        before = rest[mask ^ (1 << j), s - m]
        later = min(reach.later, cap)
        start, stop = slide(before, tau, m, later, not ended, scratch)
        if runs.unlike:
            scratch[2, :start], scratch[2, stop + 1 :] = -1, -1
            start, stop = length if not ended else m, length - bool(ended)
            slide_on(before, tau, m, longest, runs.unlike, start, scratch)
        for e in range(start, stop + 1):
            y = scratch[2, e]
            if y < 0:
                continue
            cost = tau[e] - tau[y] + before[y] + extra
            if s == m:
                cost += opening(costs, runs.ends, o, e - fewer.wide)
            if ended:
                cost += runs.joint[full ^ mask, costs.cut[e], o]
            if cost <= most and cost < after[e]:
                after[e] = cost


def prefixes(runs: Runs, most: int) -> Ints:
    """Return the least fill of the pipeline's beginning; shape (2 ** J, p + 1, L + 1).

    By the clusters that it may use, stages, and body units, in pipelines of p stages;
    the boundary after it is included. Infinite above ``most`` ns.
    """
    table, scratch = _table(runs.costs)
    _prefixes(runs, most, table, scratch)
    return table


@kernel
def promising(runs: Runs, end: Ints, begin: Ints, most: int, found: Ints) -> None:
    """Mark in ``found`` every option of some pipeline of fill <= ``most``.

    Parameters
    ----------
    end, begin
        Results of ``suffixes`` and ``prefixes``.
    """
    costs = runs.costs
    for o in range(len(costs.option)):
        j = costs.option[o, Option.CLUSTER]
        for mask in range((1 << len(costs.host)) - 1):
            if mask >> j & 1 or found[o]:
                continue
            for s in range(bits(mask), costs.facts[Fact.P]):
                if not found[o] and _completes(runs, end, begin, mask, s, o, most):
                    found[o] = 1


@step
def _completes(
    runs: Runs, end: Ints, begin: Ints, mask: int, s: int, o: int, most: int
) -> bool:
    """Whether a run of one option joins an end of s stages and some beginning."""
    costs, level, ended = runs.costs, runs.level, bits(mask)
    p, length = costs.facts[Fact.P], costs.facts[Fact.L]
    tau = costs.sums[Sum.FILL, o]
    full = (1 << len(costs.host)) - 1
    left = full ^ mask ^ (1 << costs.option[o, Option.CLUSTER])
    reach = Reach(0, 0, 0, 0)
    for m in range(1, min(costs.option[o, Option.MOST_STAGES], p - s) + 1):
        if level.caps[ended, o, s + m] < 1:
            return False
        fewer, reach = reach, reach_of(runs, o, ended, s + 1, m, reach)
        if s + m < p and not is_in_time(runs, o, ended, s + 1, m):
            continue
        cap = run_cap(runs, o, ended, s + 1, m)
        longest, later = min(reach.wide, cap), min(reach.later, cap)
        extra = costs.facts[Fact.HOPS] * (m - 1) * level.inner[o] if m > 1 else 0
        if s == 0:
            extra += closing(runs, o, m, m == p)
        for e in range(m, length + 1):
            if end[mask, s, e] >= INFINITE:
                continue
            so_far = end[mask, s, e] + extra
            if s + m == p:
                so_far += opening(costs, runs.ends, o, e - fewer.wide)
            if s:
                so_far += runs.joint[mask, costs.cut[e], o]
            for y in range(max(0, e - longest), e - m + 1):
                if e - y > later and y >= runs.unlike:
                    continue
                whole = so_far + tau[e] - tau[y] + begin[left, p - s - m, y]
                if whole <= most:
                    return True
    return False
