"""Warm-ups, closed form and simulation of one pipeline, written for readability.

Symbols as in MODEL.md section 4: tau = forward + backward, kappa and omega the
transfer and occupancy of a boundary, W warm-ups, lambda the period.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.compiled import FITS, PAYS_FROM, as_written, kernel
from hetopt.check.plan.schedule.chunks import (
    Rounds,
    order,
    simulate_rounds,
    warm_passes,
)
from hetopt.check.plan.schedule.folding import (
    Folded,
    folded_closed_form,
    simulate_folded,
    warm_ups,
)
from hetopt.check.plan.schedule.meeting import Alone
from hetopt.check.plan.schedule.meeting_stages import Durations, simulate_blocking
from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.check.plan.schedule.weights import split_closed_form, split_passes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from hetopt.problem.training.choices import ScheduleName


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Times in whole nanoseconds: p stages, p - 1 boundaries, q micro-batches.

    Attributes
    ----------
    alone
        Links and uplinks that boundaries share, and omega without sharing; None if
        nothing is shared.
    rounds
        Further times if stages hold several chunks; forward and backward are then of
        one pass, the mean over the chunks.
    later
        The part of the backward times that is gradients of weights, which run later;
        None if none do, and if stages are folded.
    folded
        Times of folded stages; all other times are then of both chunks together.
    """

    schedule: ScheduleName
    microbatches: int
    forward: tuple[int, ...]
    backward: tuple[int, ...]
    transfer: tuple[int, ...]
    occupancy: tuple[int, ...]
    sync: tuple[int, ...]
    alone: Alone | None = None
    rounds: Rounds | None = None
    later: tuple[int, ...] | None = None
    folded: Folded | None = None

    @property
    def passes(self) -> int:
        """How many forwards every stage runs."""
        return self.microbatches * (1 if self.rounds is None else self.rounds.chunks)

    @property
    def both(self) -> tuple[int, ...]:
        """Forward plus backward of every stage."""
        return tuple(f + b for f, b in zip(self.forward, self.backward, strict=True))


def warmups(
    times: Times, clusters: Sequence[str], epsilon: float | None = None
) -> tuple[int, ...]:
    """Return the warm-up count that the schedule prescribes for every stage.

    Parameters
    ----------
    clusters
        Cluster of every stage.
    epsilon
        As of ``Steps.between``.
    """
    steps = STEPS[times.schedule]
    if steps.all_first:
        return (times.microbatches,) * len(clusters)
    if times.rounds is not None:
        p = len(clusters)
        return tuple(warm_passes(p, i, times.rounds.chunks) for i in range(p))
    if times.folded is not None:
        return tuple(warm_ups(len(clusters), i) for i in range(len(clusters)))
    slowest = max(*times.both, *times.transfer, 0)
    counts = [1]
    for i in reversed(range(len(clusters) - 1)):
        crosses = clusters[i] != clusters[i + 1]
        step = steps.between(
            times.transfer[i], slowest, crosses=crosses, epsilon=epsilon
        )
        counts.append(counts[-1] + step)
    return tuple(reversed(counts))


def closed_form(times: Times, counts: Sequence[int]) -> Fraction:
    """Return the closed form in nanoseconds, exactly (MODEL.md section 4)."""
    slowest = max(times.occupancy, default=0)
    if times.folded is not None:
        steps = times.microbatches - 1
        return folded_closed_form(
            times.folded, times.transfer, slowest, times.sync, steps
        )
    if times.later is not None:
        return split_closed_form(
            times.both,
            times.later,
            times.transfer,
            slowest,
            times.sync,
            times.microbatches - 1,
        )
    fill = sum(times.both) + 2 * sum(times.transfer) + max(times.sync)
    rule = STEPS[times.schedule]
    if rule.all_first or (rule.free and min(counts) >= times.microbatches):
        steady = Fraction(max(*times.forward, slowest) + max(*times.backward, slowest))
    elif rule.blocking:
        kappa = [0, *times.transfer, 0]
        busy = [
            both + rule.blocking * (kappa[i] + kappa[i + 1])
            for i, both in enumerate(times.both)
        ]
        steady = Fraction(max(*busy, slowest))
    else:
        steady = Fraction(max(*times.both, slowest))
        for i in range(len(counts)):
            length = times.both[i]
            for k in range(i + 1, len(counts)):
                length += 2 * times.transfer[k - 1] + times.both[k]
                steady = max(steady, Fraction(length, counts[i] - counts[k] + 1))
    late = Fraction(0)
    if (rounds := times.rounds) is not None:
        p, v = len(counts), rounds.chunks
        longest = sum(times.both) + 2 * (sum(times.transfer) + rounds.back[0])
        kept = Fraction((v - 1) * rounds.back[1], v)
        steady = max(steady, Fraction(longest, 2 * p), kept)
        late = (v - 1) * max(late, longest - p * steady)
    return fill + (times.passes - 1) * steady + late


def simulate(times: Times, counts: Sequence[int]) -> int:
    """Return the simulated iteration time: the latest end of a stage's g, in ns.

    Parameters
    ----------
    counts
        Warm-ups per stage, not increasing along the pipeline.
    """
    ended = last_ends(times, counts)
    return max(end + g for end, g in zip(ended, times.sync, strict=True))


def last_ends(times: Times, counts: Sequence[int]) -> list[int]:
    """Return the end of every stage's last pass, in nanoseconds.

    Every stage runs its passes in the schedule's order, each as soon as the pass
    before it has ended and its input is there. The two directions of a boundary do not
    affect each other; a transfer starts at least one occupancy after the previous one
    and arrives one transfer time later.

    Parameters
    ----------
    counts
        As in ``simulate``.
    """
    p, q = len(counts), times.microbatches
    if times.rounds is not None:
        return _simulate_rounds(times, times.rounds, counts)
    warm = [min(count, q) for count in counts]
    if times.folded is not None:
        alone = times.alone or _nothing_met(times)
        return simulate_folded(times.folded, times.transfer, alone, q)
    if chi := STEPS[times.schedule].blocking:
        passes = Durations(times.forward, times.backward, times.transfer, q)
        return simulate_blocking(passes, counts, chi)
    if times.alone is not None:
        return _simulate_together(times, warm)
    later = list(times.later or [0] * p)
    durations = [
        list(times.forward),
        [backward - w for backward, w in zip(times.backward, later, strict=True)],
        [*times.transfer, 0],
        [*times.occupancy, 0],
        later,
    ]
    sequential = q * (sum(times.both) + 2 * sum(times.transfer))
    if p * q >= PAYS_FROM and sequential < FITS:
        clocks = np.zeros((6, p), np.int64)
        inboxes = np.zeros((2, p, q), np.int64)
        blocked = not _run(np.array(warm), np.array(durations), inboxes, clocks)
        free: list[int] = clocks[0].tolist()
    else:
        free = [0] * p
        nothing_yet = [[[0] * q for _ in range(p)] for _ in range(2)]
        rest = [[0] * p for _ in range(5)]
        blocked = not as_written(_run)(warm, durations, nothing_yet, [free, *rest])
    if blocked:
        msg = f"warm-ups {tuple(counts)} block each other"
        raise ValueError(msg)
    return free


def _simulate_rounds(times: Times, rounds: Rounds, counts: Sequence[int]) -> list[int]:
    """Return the end of every stage's last pass if stages hold several chunks."""
    p, q, v = len(counts), times.microbatches, rounds.chunks
    durations = {}
    for way, name in enumerate(("forward", "backward")):
        means = times.backward if way else times.forward
        for i, mean in enumerate(means):
            ends = {0: rounds.first[way] * (i == 0)}
            ends[v - 1] = rounds.last[way] * (i == p - 1)
            rest = mean - sum(end // v for end in ends.values())
            for chunk in range(v):
                durations[name, i, chunk] = rest + ends.get(chunk, 0)
    passes = [order(p, q, v, min(count, times.passes)) for count in counts]
    transfer = [*times.transfer, rounds.back[0]]
    return simulate_rounds(passes, durations, transfer, rounds)


def _simulate_together(times: Times, counts: Sequence[int]) -> list[int]:
    """Return the end of every stage's last pass if transfers share links.

    Transfers take turns: the one that is ready first goes first; of several,
    activations before gradients, then upstream before downstream.

    Parameters
    ----------
    counts
        Warm-ups per stage, at most q, not increasing along the pipeline.
    """
    p, q = len(counts), times.microbatches
    alone = times.alone or _nothing_met(times)
    passes = [_passes(count, q) for count in counts]
    took = [{"forward": f, "backward": b} for f, b in _paired(times)]
    if times.later is not None:
        passes = [split_passes(i, count, q) for i, count in enumerate(counts)]
        for own, later in zip(took, times.later, strict=True):
            own["weight"], own["backward"] = later, own["backward"] - later
    ran, free = [0] * p, [0] * p
    here: dict[tuple[str, int, int], int] = {}
    for m in range(q):
        here["forward", 0, m] = here["backward", p - 1, m] = 0
        here |= {("weight", i, m): 0 for i in range(p)}
    until: dict[object, int] = {}
    waiting: list[tuple[int, int, int, int]] = []
    while True:
        for i in range(p):
            while (
                ran[i] < len(passes[i])
                and (passes[i][ran[i]][0], i, passes[i][ran[i]][1]) in here
            ):
                name, m = passes[i][ran[i]]
                free[i] = max(free[i], here[name, i, m]) + took[i][name]
                ran[i] += 1
                to = i + {"forward": 1, "backward": -1, "weight": p}[name]
                if 0 <= to < p:
                    waiting.append((free[i], 0 if name == "forward" else 1, i, m))
        if not waiting:
            return free
        ready, gradients, i, m = min(waiting)
        waiting.remove((ready, gradients, i, m))
        b = i - gradients
        sign = -1 if gradients else 1
        kept: dict[object, int] = {(b, sign): alone.occupancy[b]}
        kept |= {(way.place, sign * way.side): way.keeps for way in alone.ways[b]}
        start = max([ready, *(until.get(key, 0) for key in kept)])
        until |= {key: start + keeps for key, keeps in kept.items()}
        arrives = start + times.transfer[b]
        if gradients:
            here["backward", i - 1, m] = arrives
        else:
            here["forward", i + 1, m] = arrives


def _nothing_met(times: Times) -> Alone:
    """Return the boundaries' data if nothing is shared."""
    ways = ((),) * len(times.transfer)
    return Alone(in_phases=False, occupancy=times.occupancy, ways=ways)


def _paired(times: Times) -> Iterator[tuple[int, int]]:
    """Yield forward and backward time of every stage."""
    return zip(times.forward, times.backward, strict=True)


def _passes(warm: int, q: int) -> list[tuple[str, int]]:
    """Return F_1..F_w, B_1, F_w+1, B_2, ... of one stage."""
    listed = [("forward", m) for m in range(warm)]
    for m in range(q):
        listed.append(("backward", m))
        if warm + m < q:
            listed.append(("forward", warm + m))
    return listed


# One long loop, so that it can be compared with MODEL.md section 4.
@kernel
def _run(warm: Any, durations: Any, inboxes: Any, clocks: Any) -> bool:
    """Run all passes; return False if they deadlock.

    Uncompiled it takes nested lists of Python integers, compiled it takes arrays.

    Parameters
    ----------
    warm
        Warm-ups of every stage, at most q.
    durations
        By stage: forward, backward, transfer and occupancy of the boundary after it
        (0 for the last stage), and gradients of weights. Stage i, from 0, runs those of
        a micro-batch after the backward of the i-th following one, and the remaining
        ones at the end; shape (5, p).
    inboxes
        Zeros; holds when activations and gradients reach a stage; shape (2, p, q).
    clocks
        Zeros; holds when every stage is free again, how many passes it has run, when
        its boundary is ready for the next activations and gradients, and how many of
        each have been sent to it; shape (6, p).
    """
    forward, backward, transfer, occupancy, weight = (
        durations[0], durations[1], durations[2], durations[3], durations[4]
    )  # fmt: skip
    activations, gradients = inboxes[0], inboxes[1]
    free, ran, down, up = clocks[0], clocks[1], clocks[2], clocks[3]
    active, grads = clocks[4], clocks[5]
    p, q = len(warm), len(activations[0])
    active[0] = grads[p - 1] = q
    left = 2 * p * q
    while left:
        before = left
        for i in range(p):
            while ran[i] < 2 * q:
                # F_1..F_w, B_1, F_w+1, B_2, ..., and backwards when no forward is left
                k, w = ran[i], warm[i]
                m, is_backward = k, False
                if k >= 2 * q - w:
                    m, is_backward = k - q, True
                elif k >= w:
                    m, is_backward = (k - w) // 2, (k - w) % 2 == 0
                    m += 0 if is_backward else w
                if m >= (grads[i] if is_backward else active[i]):
                    break
                if is_backward:
                    free[i] = max(free[i], gradients[i][m]) + backward[i]
                    if i > 0:
                        start = max(free[i], up[i - 1])
                        up[i - 1] = start + occupancy[i - 1]
                        gradients[i - 1][m] = start + transfer[i - 1]
                        grads[i - 1] += 1
                    if m >= i:
                        free[i] += weight[i]
                    if m == q - 1:
                        free[i] += min(i, q) * weight[i]
                else:
                    free[i] = max(free[i], activations[i][m]) + forward[i]
                    if i < p - 1:
                        start = max(free[i], down[i])
                        down[i] = start + occupancy[i]
                        activations[i + 1][m] = start + transfer[i]
                        active[i + 1] += 1
                ran[i] += 1
                left -= 1
        if left == before:
            return False
    return True
