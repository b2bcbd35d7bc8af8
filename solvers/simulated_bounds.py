"""Lower bounds on the simulated time: what the search for the least of it looks ahead.

With F the fill, the sum of all tau and 2 kappa, two families of paths through the
event graph bound the simulated time of a plan (MODEL.md section 4, the second with
less said there). ``w`` is min(W, q); every path ends with some g.

- One stage: the first micro-batch goes to the last stage and comes back to stage i,
  which then runs the forwards past its warm-up and all other backwards:
  F + (q - w_i) phi_i + (q - 1) beta_i.
- A window i..k: before that, r times, a forward goes from i to k, the backward
  w_k - 1 places behind it comes back to i, and lets a forward W_i places ahead of it
  start. With s = w_i - w_k + 1 places per turn, C the sum of tau and 2 kappa inside
  the window, and w_k + r s <= q:
  F + (w_k - 1) phi_i + r C + (q - w_k - r s) beta_i.

Under gpipe every forward of stage i comes first and every backward of it last, so
that there w may be taken for 1: F + (q - 1) tau_i.

So the time is at least the fill plus the *excess* of every stage and window. With
the excess at most E, stages and runs hold at most so many units, and a dynamic
program over (clusters, stages, units) gives the least fill. Fill falls as E grows,
so a range of E is cut into intervals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.solvers.compiled import compiled, part
from hetopt.solvers.dp_data import (
    ACTIVE,
    CLUSTER,
    FORWARD,
    FREE,
    GPIPE,
    KAPPA,
    LAYOUT,
    LEAD,
    ROOM,
    STATE,
    TAU,
    TRAIL,
    L,
    P,
    Q,
)

if TYPE_CHECKING:
    from hetopt.solvers.dp_data import Costs, Ints

#: More than any sum of times.
INFINITE = 2**60
#: Rows of ``Short``.
PHI, BETA, BOTH, HELD, KEPT = range(5)
#: Rows of ``Steps``: warm-ups added at a boundary inside a run and between runs.
INSIDE, ACROSS = range(2)


class Limits(NamedTuple):
    """What stages and runs hold while no excess is above some E.

    Attributes
    ----------
    excess
        E in ns.
    caps
        Most body units on the stage at each place from the end, by the runs that
        have ended before it; shape (J, O, p + 1).
    inner
        Least kappa inside a run, by option.
    """

    excess: int
    caps: Ints
    inner: Ints


@compiled
def shortest(sums: Ints) -> Ints:
    """Return the least of any run of l body units: phi, beta, tau, bytes, bytes.

    Shape (5, O, L + 1); of ``Costs.sums``.
    """
    count, size = sums.shape[1:]
    least = np.zeros((5, count, size), dtype=np.int64)
    for row in range(5):
        for o in range(count):
            for length in range(1, size):
                best = INFINITE
                for start in range(size - length):
                    end = start + length
                    if row == PHI:
                        worth = sums[FORWARD, o, end] - sums[FORWARD, o, start]
                    elif row == BETA:
                        worth = sums[TAU, o, end] - sums[TAU, o, start]
                        worth -= sums[FORWARD, o, end] - sums[FORWARD, o, start]
                    elif row == BOTH:
                        worth = sums[TAU, o, end] - sums[TAU, o, start]
                    elif row == HELD:
                        worth = sums[STATE, o, end] - sums[STATE, o, start]
                    else:
                        worth = sums[ACTIVE, o, end] - sums[ACTIVE, o, start]
                    best = min(best, worth)
                least[row, o, length] = best
    return least


@part
def _fitting(first: Ints, by: int, second: Ints, times: int, room: int) -> int:
    """Return the largest l with by * first[l] + times * second[l] <= room, or -1."""
    low, high = 0, len(first)
    while low < high:
        middle = (low + high) // 2
        if by * first[middle] + times * second[middle] <= room:
            low = middle + 1
        else:
            high = middle
    return low - 1


@compiled
def limits(
    costs: Costs, short: Ints, steps: Ints, longest: int, excess: int
) -> tuple[Ints, Ints]:
    """Return ``caps`` and ``inner`` of ``Limits``.

    Parameters
    ----------
    steps
        Least and most warm-ups per boundary, inside runs and between; shape (2, 2).
    longest
        Most ns that tau of any stage may take.
    """
    p, length, q = costs.facts[P], costs.facts[L], costs.facts[Q]
    count, classes = len(costs.option), costs.edge.shape[1]
    clusters = len(costs.host)
    seen = np.zeros(classes, dtype=np.int64)
    for cut in range(1, length):
        seen[costs.cut[cut]] = 1
    inner = np.full(count, INFINITE, dtype=np.int64)
    for o in range(count):
        a = costs.option[o, LAYOUT]
        for x in range(classes):
            if seen[x]:
                inner[o] = min(inner[o], costs.edge[KAPPA, x, a, a])
    caps = np.zeros((clusters, count, p + 1), dtype=np.int64)
    for c in range(clusters):
        for o in range(count):
            room = costs.option[o, FREE] - costs.temporary[o].min()
            quick = _fitting(short[BOTH, o], 1, short[BOTH, o], 0, longest)
            for i in range(c + 1, p + 1):
                light = 1 + (i - 1 - c) * steps[0, INSIDE] + c * steps[0, ACROSS]
                heavy = 1 + (i - 1 - c) * steps[1, INSIDE] + c * steps[1, ACROSS]
                light, heavy = min(light, q), min(heavy, q)
                if costs.facts[GPIPE]:
                    light, heavy = q, 1
                left = excess
                if i == 1:
                    ends = costs.option[o, TRAIL + FORWARD]
                    left -= (q - heavy) * ends
                    left -= (q - 1) * (costs.option[o, TRAIL + TAU] - ends)
                within = _fitting(short[PHI, o], q - heavy, short[BETA, o], q - 1, left)
                fits = _fitting(short[HELD, o], 1, short[KEPT, o], light, room)
                caps[c, o, i] = max(0, min(quick, within, fits))
    return caps, inner


@part
def _run_cap(
    costs: Costs, short: Ints, steps: Ints, level: Limits, o: int, ended: int, at: int,
    m: int,
) -> int:  # fmt: skip
    """Return the most body units of a run of m stages by the excess of its window.

    The run's last stage is the ``at``-th from the end.
    """
    q = costs.facts[Q]
    if m < 2 or costs.facts[GPIPE]:
        return int(costs.facts[L])
    heavy = 1 + (at - 1 - ended) * steps[1, INSIDE] + ended * steps[1, ACROSS]
    turn = 1 + (m - 1) * steps[1, INSIDE]
    turns = (q - heavy) // turn
    if turns < 1:
        return int(costs.facts[L])
    room = level.excess // turns - 2 * (m - 1) * level.inner[o]
    return _fitting(short[BOTH, o], 1, short[BOTH, o], 0, room)


@part
def _bits(mask: int) -> int:
    count = 0
    while mask:
        count += mask & 1
        mask >>= 1
    return count


@part
def _joint(costs: Costs, o: int, after: int, x: int) -> int:
    """Return the least 2 kappa from option o to clusters in the mask ``after``."""
    least = INFINITE
    own = costs.option[o, LAYOUT]
    for b in range(len(costs.home)):
        if after >> costs.home[b] & 1:
            least = min(least, 2 * costs.edge[KAPPA, x, own, b])
    return least


@compiled
def suffixes(costs: Costs, short: Ints, steps: Ints, level: Limits, most: int) -> Ints:
    """Return the least fill of the pipeline's end; shape (2 ** J, p + 1, L + 1).

    By the clusters used, stages, and the body units *before* it; with none before,
    it is a whole pipeline of as many stages, lead included. p is the largest of
    interest: one table serves all. Infinite above ``most`` ns.
    """
    p, length = costs.facts[P], costs.facts[L]
    clusters = len(costs.host)
    full = 1 << clusters
    least = np.full((full, p + 1, length + 1), INFINITE, dtype=np.int64)
    least[0, 0, length] = 0
    queue = np.empty(length + 1, dtype=np.int64)
    worth = np.empty(length + 1, dtype=np.int64)
    for mask in range(full - 1):
        ended = _bits(mask)
        for s in range(p):
            now = least[mask, s]
            first = 1
            while first <= length and now[first] >= INFINITE:
                first += 1
            if first > length:
                continue
            for o in range(len(costs.option)):
                j = costs.option[o, CLUSTER]
                if mask >> j & 1:
                    continue
                tau = costs.sums[TAU, o]
                for e in range(first, length + 1):
                    worth[e] = INFINITE
                    if now[e] < INFINITE:
                        worth[e] = now[e] + tau[e]
                        if s:
                            worth[e] += _joint(costs, o, mask, costs.cut[e])
                        else:
                            worth[e] += costs.option[o, TRAIL + TAU]
                total = 0
                for m in range(1, min(costs.option[o, ROOM], p - s) + 1):
                    each = level.caps[ended, o, s + m]
                    if each < 1:
                        break
                    total += each
                    if not costs.stages_ok[j, m]:
                        continue
                    longest = min(
                        total,
                        _run_cap(costs, short, steps, level, o, ended, s + 1, m),
                    )
                    if longest < m:
                        continue
                    after = least[mask | 1 << j, s + m]
                    extra = 2 * (m - 1) * level.inner[o] if m > 1 else 0
                    # Runs from y to e with m <= e - y <= longest, y falling.
                    head, tail, following = 0, 0, length
                    for y in range(length - m, -1, -1):
                        if y + longest < first:
                            break
                        while following >= first and following >= y + m:
                            while (
                                tail > head
                                and worth[queue[tail - 1]] >= worth[following]
                            ):
                                tail -= 1
                            queue[tail] = following
                            tail += 1
                            following -= 1
                        while tail > head and queue[head] > y + longest:
                            head += 1
                        if tail == head or worth[queue[head]] >= INFINITE:
                            continue
                        cost = worth[queue[head]] - tau[y] + extra
                        if y == 0:
                            cost += costs.option[o, LEAD + TAU]
                        if cost <= most and cost < after[y]:
                            after[y] = cost
    return least


@compiled
def prefixes(costs: Costs, short: Ints, steps: Ints, level: Limits, most: int) -> Ints:
    """Return the least fill of the pipeline's beginning; shape (2 ** J, p + 1, L + 1).

    By the clusters not used by the rest, stages, and body units, all of a pipeline
    of p stages; with the boundary to the rest. Infinite above ``most`` ns.
    """
    p, length = costs.facts[P], costs.facts[L]
    clusters = len(costs.host)
    full = (1 << clusters) - 1
    rest = np.full((full + 1, p + 1, length + 1), INFINITE, dtype=np.int64)
    queue = np.empty(length + 1, dtype=np.int64)
    worth = np.empty(length + 1, dtype=np.int64)
    for mask in range(full + 1):
        rest[mask, 0, 0] = 0
        ended = clusters - _bits(mask)
        for o in range(len(costs.option)):
            j = costs.option[o, CLUSTER]
            if not mask >> j & 1:
                continue
            tau = costs.sums[TAU, o]
            for s in range(1 if ended else p, p - ended + 1):
                after = rest[mask, s]
                total = 0
                for m in range(1, min(costs.option[o, ROOM], s) + 1):
                    each = level.caps[ended, o, p - s + m]
                    if each < 1:
                        break
                    total += each
                    if not costs.stages_ok[j, m]:
                        continue
                    longest = min(
                        total,
                        _run_cap(costs, short, steps, level, o, ended, p - s + 1, m),
                    )
                    if longest < m:
                        continue
                    extra = 2 * (m - 1) * level.inner[o] if m > 1 else 0
                    if not ended:
                        extra += costs.option[o, TRAIL + TAU]
                    if s == m:
                        extra += costs.option[o, LEAD + TAU]
                    before = rest[mask ^ (1 << j), s - m]
                    first, last = 0, 0
                    if s > m:
                        while first <= length and before[first] >= INFINITE:
                            first += 1
                        last = length
                        while last >= 0 and before[last] >= INFINITE:
                            last -= 1
                    for y in range(first, last + 1):
                        worth[y] = INFINITE
                        if before[y] < INFINITE:
                            worth[y] = before[y] - tau[y]
                    start, stop = first + m, min(length - 1, last + longest)
                    if not ended:
                        start = stop = length
                    head, tail, following = 0, 0, first
                    for e in range(start, stop + 1):
                        while following <= last and following <= e - m:
                            while (
                                tail > head
                                and worth[queue[tail - 1]] >= worth[following]
                            ):
                                tail -= 1
                            queue[tail] = following
                            tail += 1
                            following += 1
                        while tail > head and queue[head] < e - longest:
                            head += 1
                        if tail == head or worth[queue[head]] > INFINITE // 2:
                            continue
                        cost = tau[e] + worth[queue[head]] + extra
                        if ended:
                            cost += _joint(costs, o, full ^ mask, costs.cut[e])
                        if cost <= most and cost < after[e]:
                            after[e] = cost
    return rest


@compiled
def promising(
    costs: Costs,
    short: Ints,
    steps: Ints,
    level: Limits,
    end: Ints,
    begin: Ints,
    most: int,
) -> Ints:
    """Return whether each option is part of some pipeline of fill <= ``most``.

    Parameters
    ----------
    end, begin
        Of ``suffixes`` and ``prefixes``.
    """
    p, length = costs.facts[P], costs.facts[L]
    clusters = len(costs.host)
    full = (1 << clusters) - 1
    found = np.zeros(len(costs.option), dtype=np.int64)
    for o in range(len(costs.option)):
        j = costs.option[o, CLUSTER]
        tau = costs.sums[TAU, o]
        for mask in range(full):
            if mask >> j & 1 or found[o]:
                continue
            ended = _bits(mask)
            left = full ^ mask ^ (1 << j)
            for s in range(ended, p):
                total = 0
                for m in range(1, min(costs.option[o, ROOM], p - s) + 1):
                    each = level.caps[ended, o, s + m]
                    if each < 1 or found[o]:
                        break
                    total += each
                    longest = min(
                        total,
                        _run_cap(costs, short, steps, level, o, ended, s + 1, m),
                    )
                    extra = 2 * (m - 1) * level.inner[o] if m > 1 else 0
                    if s + m == p:
                        extra += costs.option[o, LEAD + TAU]
                    for e in range(m, length + 1):
                        if end[mask, s, e] >= INFINITE:
                            continue
                        so_far = end[mask, s, e] + extra
                        if s:
                            so_far += _joint(costs, o, mask, costs.cut[e])
                        else:
                            so_far += costs.option[o, TRAIL + TAU]
                        for y in range(max(0, e - longest), e - m + 1):
                            whole = so_far + tau[e] - tau[y]
                            whole += begin[left, p - s - m, y]
                            if whole <= most:
                                found[o] = 1
                                break
                        if found[o]:
                            break
    return found
