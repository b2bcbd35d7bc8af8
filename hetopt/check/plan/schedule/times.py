"""Warm-ups and simulation of one pipeline, written for readability.

Symbols as in MODEL.md section 4: tau = forward + backward, kappa and omega the
transfer and occupancy of a boundary, W warm-ups, lambda the period.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING

from hetopt.check.plan.schedule import orders, run
from hetopt.check.plan.schedule.orders import BACKWARD, FORWARD, WEIGHT, Position
from hetopt.check.plan.schedule.run import Work
from hetopt.check.plan.schedule.schedules import STEPS

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from hetopt.check.plan.schedule.meeting import Alone
    from hetopt.check.plan.schedule.run import Place
    from hetopt.problem.training.choices import ScheduleName

    #: Of every chunk the times on all stages.
    ByChunk = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Times in whole nanoseconds: p stages, p - 1 boundaries, q micro-batches.

    The closed form counts *periods*: passes if chunks are interleaved, otherwise
    micro-batches.

    Attributes
    ----------
    forward, backward, weight
        Of one micro-batch. ``weight`` is the part of ``backward`` that runs later,
        gradients of weights; empty if none does.
    transfer, occupancy
        Of every boundary in one direction, for a period. If chunks are interleaved,
        those of the way back are last. Occupancy is as the closed form counts it.
    alone
        Links and uplinks that boundaries share, and omega without sharing; None if
        nothing is shared.
    handed, filled
        What a stage adds to a window that begins before it, and to the fill; None: tau
        less w, and less 2 w.
    crossing
        With several chunks interleaved, transfer and occupancy of each chunk's
        activations at every boundary, the way back last, without sharing; those above
        are the longest.
    """

    schedule: ScheduleName
    microbatches: int
    forward: ByChunk
    backward: ByChunk
    weight: ByChunk = ()
    transfer: tuple[int, ...]
    occupancy: tuple[int, ...]
    sync: tuple[int, ...]
    alone: Alone | None = None
    handed: tuple[int, ...] | None = None
    filled: tuple[int, ...] | None = None
    crossing: tuple[ByChunk, ByChunk] = ((), ())

    @property
    def periods(self) -> int:
        """How many periods a micro-batch takes."""
        return len(self.forward) if STEPS[self.schedule].interleaved else 1

    @property
    def both(self) -> tuple[int, ...]:
        """Tau of every stage: all that it computes in a period, on average."""
        every = zip(*self.forward, *self.backward, strict=True)
        return tuple(sum(own) // self.periods for own in every)

    def without(self, part: int) -> tuple[int, ...]:
        """Return tau of every stage less ``part`` times w."""
        later = self.weight or [[0] * len(self.sync)]
        pairs = zip(self.both, *later, strict=True)
        return tuple(tau - part * sum(w) for tau, *w in pairs)


def alike(spent: Sequence[int], chunks: int) -> ByChunk:
    """Return what transfers of every chunk take if those over a boundary are alike.

    Parameters
    ----------
    spent
        At every boundary, the way back last, which the last chunk does not take.
    """
    inside = tuple(spent[:-1])
    return (((*inside, spent[-1]),) * (chunks - 1)) + ((*inside, 0),)


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
    steps, p = STEPS[times.schedule], len(clusters)
    if steps.all_first:
        return (times.microbatches,) * p
    if steps.room is not None:
        at = [Position(i, p, times.microbatches, 2, 0) for i in range(p)]
        return tuple(orders.run_ahead(steps.order(each)) for each in at)
    slowest = max(*times.both, *times.transfer, 0)
    # With several chunks every stage is another p passes ahead for each but one.
    counts = [1 + (len(times.forward) - 1) * p]
    for i in reversed(range(p - 1)):
        crosses = clusters[i] != clusters[i + 1]
        step = steps.between(
            times.transfer[i], slowest, crosses=crosses, epsilon=epsilon
        )
        counts.append(counts[-1] + step)
    return tuple(reversed(counts))


def last_ends(each: Sequence[Times], counts: Sequence[int]) -> list[int]:
    """Return the end of every stage's last pass, in nanoseconds.

    Every stage runs its passes in the schedule's order, each as soon as the pass
    before it has ended and its input is there. A transfer starts at least one occupancy
    after the one before it in its direction, and arrives one transfer time later.

    Parameters
    ----------
    each, counts
        As for ``closed_form.closed_form``; the longest micro-batches run first.

    Raises
    ------
    ValueError
        Stages wait for each other.
    """
    p, v, steps = len(counts), len(each[0].forward), STEPS[each[0].schedule]
    lengths = [n for n, times in enumerate(each) for _ in range(times.microbatches)]
    works: dict[Place, Work] = {}
    for n, times in enumerate(each):
        for i, chunk in product(range(p), range(v)):
            backward = times.backward[chunk][i]
            if times.weight:
                works[WEIGHT, i, chunk, n] = Work(times.weight[chunk][i])
                backward -= times.weight[chunk][i]
            works[FORWARD, i, chunk, n] = Work(times.forward[chunk][i])
            works[BACKWARD, i, chunk, n] = Work(backward)
        (_add_messages if steps.blocking else _add_transfers)(works, times, n)
    ended = run.last_ends(
        [
            steps.order(Position(i, p, len(lengths), v, count))
            for i, count in enumerate(counts)
        ],
        works,
        lengths,
    )
    if ended is None:
        msg = f"warm-ups {tuple(counts)} block each other"
        raise ValueError(msg)
    return ended


def _add_transfers(works: dict[Place, Work], times: Times, n: int) -> None:
    """Add where the passes of the n-th length send their outputs."""
    p, v, folded = len(times.sync), len(times.forward), STEPS[times.schedule].folded
    # The way through the model: every other chunk of folded stages leads back.
    path = [
        (p - 1 - i if folded and chunk % 2 else i, chunk)
        for chunk in range(v)
        for i in range(p)
    ]
    # How many transfers of a period a boundary carries in one direction.
    share = v // times.periods
    for (i, chunk), (k, after) in pairwise(path):
        if i == k:
            continue
        b, side = (min(i, k), k - i) if chunk == after else (p - 1, 1)
        kappa = times.transfer[b]
        omega = times.alone.occupancy[b] if times.alone else times.occupancy[b]
        if STEPS[times.schedule].interleaved:
            kappa, omega = (spent[chunk][b] for spent in times.crossing)
        for kind, source, to, sign in (
            (FORWARD, (i, chunk), (k, after), side),
            (BACKWARD, (k, after), (i, chunk), -side),
        ):
            keeps: dict[Hashable, int] = {(b, sign): omega // share}
            for way in times.alone.ways[b] if times.alone else ():
                keeps[way.place, sign * way.side] = way.keeps // share
            took = works[kind, *source, n].took
            works[kind, *source, n] = Work(took, (kind, *to, n), kappa // share, keeps)


def _add_messages(works: dict[Place, Work], times: Times, n: int) -> None:
    """Add the messages for which both stages of a boundary wait."""
    for b, spent in enumerate(times.transfer):
        for out, into, source, to in (
            (orders.ACTIVATION_OUT, orders.ACTIVATION_IN, b, b + 1),
            (orders.GRADIENT_OUT, orders.GRADIENT_IN, b + 1, b),
        ):
            works[out, source, 0, n] = Work(spent, (into, to, 0, n))
            works[into, to, 0, n] = Work(spent, (out, source, 0, n))
