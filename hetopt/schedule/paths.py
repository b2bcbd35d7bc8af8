"""Paths through the events of a schedule: lower bounds on the simulated time.

Every start is the latest of what it waits for, so any path through the events is a
lower bound on the simulated time. One for every stage i has the shape of the closed
form,

    fill + excess_i + end.

The first micro-batch goes through all chunks of all stages and comes back to stage i,
which then runs its own passes in their order; the last micro-batch goes back through
all chunks to the first stage, which ends with its g. With phi, B = beta - w and w the
times of a forward, of gradients of inputs and of those of weights that run later (0 if
none do), v chunks, n = q v passes, W cut to n, and h = kappa_(i-1) + kappa_i:

    fill     = v * sum of (phi + B + 2 kappa) + 2 (v - 1) * way back
    excess_i = (n - W) phi + (n - 1 - (v - 1) p) B + (n - 1 - late) w + around * h
    end      = g + w of the first stage

The last p backwards of each chunk but the last one are after those of stage i in the
path. ``late`` is by how many micro-batches w of stage i comes after B: p - W under
ZB-H1. If all forwards come first, the forwards of stage i are n - 1, as its last
backward comes after all backwards before it. Stages that wait for each transfer (chi)
also spend ``around`` = chi n - 1 - (chi - 1) W of them with their neighbours.

If stages are folded, the first micro-batch goes through both chunks and as a gradient
to the second chunk of stage i, which then runs its own passes until its last gradient
of that chunk. This goes on to the last stage, and back through the first chunks. So
the fill is as above, with both chunks' times and transfers, end the g and w of the
first stage's first chunk, and the excess what stage i runs between these two gradients
(``between``). What a stage computes, q tau + g, is a bound of its own.

A path may also go all the way again and again: on the first stage some micro-batch may
begin only after an earlier one has come back, by the order of passes. So may the
gradient of a second chunk after that of an earlier micro-batch's first chunk. With a
micro-batches that follow each other so, or with one and then b - 1 such gradients,

    sum of (a phi + b B + (a + b) kappa) + end

is a bound; b = a with whole micro-batches, and else a = 1 (``folded_trips``).

A link is a path as well: its gradients follow each other omega apart, and

    fill + (n - 1 - (v - 1) p) omega + end

(not if transfers block; if stages are folded, omega counts for all that goes down
between the two gradients). So is, for links and uplinks that boundaries share, the sum
of what all transfers in one direction take but for the last. After the first backward
of a stage that gradients leave over an uplink, activations cross another of its
boundaries n - W times at least, and all its gradients follow. So an uplink between two
clusters, busy for s per transfer, has the excess

    (n - W + n - 1 - (v - 1) p) s

over fill and end, like a stage with phi = B = s; W is of the cluster's first stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from operator import sub
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.schedule.orders import FOLDED_CHUNKS, FOLDS, Orders
from hetopt.schedule.schedules import rule_of
from hetopt.schedule.warmup import few_microbatches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hetopt.problem.training.choices import ScheduleName
    from hetopt.schedule.schedules import ScheduleRule
    from hetopt.schedule.shares import Share
    from hetopt.schedule.times import PipelineTimes

    Ints = NDArray[np.int64]


class Weights(NamedTuple):
    """How often the excess of a stage has phi, B, w and h.

    If stages are folded, those of one chunk: the mean of both, or of the second one
    alone if this is quicker.
    """

    forward: int
    backward: int
    later: int
    around: int


@dataclass(frozen=True, slots=True)
class PathForm:
    """The paths of a schedule."""

    rule: ScheduleRule

    @property
    def windows(self) -> bool:
        """Whether paths that go round between two stages are bounds as well.

        These are those of ``hetopt.solvers.simulated.bounds``.
        """
        rule = self.rule
        goes_round = rule.is_plain or (rule.splits and not rule.folded)
        return goes_round and not (rule.all_first or rule.free)

    def weights(self, warmups: Ints, *, passes: int, stages: int, chunks: int) -> Ints:
        """Return the weights of stages with these W, in the order of ``Weights``.

        Shape (4, stages). Not of folded stages (``folded_weights``).

        Parameters
        ----------
        passes, stages, chunks
            n, p and v.
        """
        rule, every = self.rule, np.full(len(warmups), passes, dtype=np.int64)
        chi, none = rule.blocking, np.zeros_like(every)
        held = np.minimum(warmups, passes)
        late = np.maximum(stages - warmups, 0)
        rows = (
            every - (1 if rule.all_first else held),
            every - 1 - (chunks - 1) * stages,
            np.maximum(every - 1 - late, 0),
            chi * every - 1 - (chi - 1) * held if chi else none,
        )
        return np.stack(rows)


def folded_orders(schedule: ScheduleName, stages: int, microbatches: int) -> Orders:
    """Return the order of passes of folded stages."""
    return Orders(
        warmups=(1,) * stages,
        microbatches=microbatches,
        chunks=FOLDED_CHUNKS,
        folded=True,
        block=FOLDS[schedule],
        splits=True,
    )


def between(orders: Orders, stage: int) -> dict[tuple[str, int], int]:
    """Count a folded stage's passes by kind and chunk.

    Those after its first gradient of the second chunk, up to its last one.
    """
    passes, last = [*orders.of(stage)], FOLDED_CHUNKS * orders.microbatches - 1
    begin, end = passes.index(("B", 1)), passes.index(("B", last))
    found = dict.fromkeys(product("FBW", range(FOLDED_CHUNKS)), 0)
    for kind, number in passes[begin + 1 : end + 1]:
        found[kind, number % FOLDED_CHUNKS] += 1
    return found


def folded_weights(schedule: ScheduleName, stages: int, microbatches: int) -> Ints:
    """Return the weights of folded stages, in the order of ``Weights``; (4, stages).

    With x of the first chunk and y of the second, and m <= n of them, m x + n y is at
    least (m + n) / 2 times the lesser of x + y and 2 y; with m > n, n times.
    """
    few = few_microbatches(stages, microbatches)
    found = _few_weights(schedule, stages, few).copy()
    # Once stages alternate, a micro-batch adds one pass of every kind and chunk.
    found[:3] += FOLDED_CHUNKS * (microbatches - few)
    return found


@lru_cache(maxsize=4096)
def _few_weights(schedule: ScheduleName, stages: int, microbatches: int) -> Ints:
    orders = folded_orders(schedule, stages, microbatches)
    found = np.zeros((len(Weights._fields), stages), dtype=np.int64)
    for stage in range(stages):
        own = between(orders, stage)
        found[:3, stage] = [own[k, 1] + min(own[k, 0], own[k, 1]) for k in "FBW"]
    return found


@lru_cache(maxsize=4096)
def _rounds(
    schedule: ScheduleName, stages: int, microbatches: int, begin: tuple[str, int]
) -> list[int]:
    """Return micro-batches of which each begins once the one before it has come back.

    On the first of folded stages: the next whose pass ``begin`` comes after the last
    gradient of the one before.
    """
    orders = folded_orders(schedule, stages, microbatches)
    found: list[int] = []
    away = False
    for kind, number in orders.of(0):
        micro, chunk = divmod(number, FOLDED_CHUNKS)
        if away:
            away = (kind, number) != ("B", FOLDED_CHUNKS * found[-1])
        elif (kind, chunk) == begin:
            found.append(micro)
            away = True
    return found


def folded_trips(
    schedule: ScheduleName, stages: int, microbatches: int
) -> tuple[tuple[int, int], ...]:
    """Return how often trips through folded stages have all phi, and all B.

    They are those of whole micro-batches, and, after one, those of gradients alone.
    Once stages alternate, as many micro-batches are between two of them as mostly are.
    """
    few, counts = few_microbatches(stages, microbatches), []
    for begin in ("F", 0), ("B", 1):
        found = _rounds(schedule, stages, few, begin)
        paces = sorted(map(sub, found[1:], found)) or [microbatches]
        left = microbatches - few
        if left and begin == ("F", 0):
            # Gradients run early at the end, forwards never.
            left = microbatches - 1 - found[-1]
        counts.append(len(found) + left // paces[len(paces) // 2])
    return (counts[0], counts[0]), (1, counts[1])


def path_bound_ns(times: PipelineTimes) -> int:
    """Return the longest of these paths, at most the simulated time."""
    if times.mixed:
        return max(_of_lengths(times))
    if times.fold is not None:
        paths = [*_of_folds(times), *_of_folded_links(times), *_of_shares(times)]
    else:
        paths = [*_of_stages(times), *_of_links(times), *_of_shares(times)]
    return max(paths)


def _fill_ns(times: PipelineTimes) -> int:
    """Return the fill and the end; if sequences differ, with the longest."""
    later, end = times.later_ns, times.weights_ns(0)[0] + times.sync_ns[0]
    fill = sum(times.round_trip_ns) - sum(later) + 2 * sum(times.transfer_ns)
    if (chunks := times.chunks) is None:
        return fill + end
    return chunks.count * fill + 2 * (chunks.count - 1) * chunks.way_back_ns + end


def _every(times: PipelineTimes) -> list[Weights]:
    """Return the weights of each stage."""
    form = PathForm(rule_of(times.schedule))
    rows = form.weights(
        np.array(times.warmups),
        passes=times.periods,
        stages=times.stages,
        chunks=times.periods // times.microbatches,
    )
    # Python's integers do not overflow.
    return [Weights(*row) for row in rows.T.tolist()]


def _of_stages(times: PipelineTimes) -> Iterator[int]:
    fill, sides = _fill_ns(times), [0, *times.transfer_ns, 0]
    for i, weights in enumerate(_every(times)):
        phi, backward = times.forward_ns[i], times.backward_ns[i] - times.later_ns[i]
        excess = weights.around * (sides[i] + sides[i + 1])
        excess += weights.later * times.later_ns[i]
        if times.chunks is not None:
            # These passes may have fewer of the first chunk than of others.
            phi, backward = (
                min(mean, own[-1])
                for mean, own in zip(
                    (phi, backward), times.durations_ns(i), strict=True
                )
            )
        yield fill + excess + weights.forward * phi + weights.backward * backward


def _of_lengths(times: PipelineTimes) -> Iterator[int]:
    """Yield what the stages' paths are if sequences have several lengths.

    The first micro-batch is the longest; the last one, whose gradient goes back from
    the stage to the first, the shortest.
    """
    every = [each for each in times.mixed for _ in range(each.passes)]
    last = every[-1]
    path = _fill_ns(times)
    for i, warmup in enumerate(times.inflight):
        ahead = sum(each.forward_ns[i] for each in every[warmup:])
        yield path + ahead + sum(each.backward_ns[i] for each in every[1:])
        path -= times.backward_ns[i] - last.backward_ns[i]
        path -= sum(times.transfer_ns[i : i + 1]) - sum(last.transfer_ns[i : i + 1])


def _of_links(times: PipelineTimes) -> Iterator[int]:
    rule = rule_of(times.schedule)
    if rule.blocking:
        return
    count = _every(times)[0].backward
    for omega in times.alone_occupancy_ns[: times.stages - 1]:
        yield _fill_ns(times) + count * omega


def _of_shares(times: PipelineTimes) -> Iterator[int]:
    """Yield paths through the transfers that share a link or uplink one way."""
    folded = times.fold is not None
    for share in () if times.sharing is None else times.sharing.shares:
        service_ns = share.service_ns // times.merged
        count = len(share.boundaries) * times.passes
        # The way back is not taken from the last chunk.
        count -= times.microbatches * (times.stages - 1 in share.boundaries)
        yield (count - 1) * service_ns
        for side in () if folded else (True, False):
            count = _after_first_backward(times, share, side)
            yield _fill_ns(times) + count * service_ns


def _after_first_backward(times: PipelineTimes, share: Share, side: bool) -> int:
    """Count transfers one way between the first and the last gradient of a boundary.

    Those of the first boundary whose gradients go this way, and of others all but those
    that may come before: as many as the stage after it, or their own sender, holds.
    """
    every, held, way_back = _every(times), times.inflight, times.stages - 1
    sides = zip(share.boundaries, share.outward, strict=True)
    known = {b: out == side for b, out in sides if b != way_back}
    first = min((b for b, forward in known.items() if not forward), default=None)
    if first is None:
        return 0
    count = every[first + 1].backward
    gradients = count + 1 - held[first + 1]
    ahead = [every[min(b, first + 1)].forward for b in known if known[b]]
    if rule_of(times.schedule).all_first:
        # Those of another boundary come before or after.
        ahead = ahead[:1]
    behind = len(known) - 1 - sum(known.values())
    return count + sum(ahead) + behind * max(0, gradients)


def _of_folded_links(times: PipelineTimes) -> Iterator[int]:
    """Yield paths through the links of folded stages."""
    for i, omega in enumerate(times.alone_occupancy_ns):
        own = between(times.orders, i)
        yield _fill_ns(times) + (own["F", 0] + own["B", 1]) * omega


def _of_folds(times: PipelineTimes) -> Iterator[int]:
    """Yield the time of each folded stage's passes, in order, if no other one waits.

    A micro-batch's next pass waits for the stages between, there and back. Its last
    gradient is handed on to the first stage.
    """
    p, kappa = times.stages, times.every_transfer_ns
    took = []
    for i in range(p):
        rows = *times.durations_ns(i), times.weights_ns(i)
        took.append(dict(zip("FBW", rows, strict=True)))

    def along(kind: str, chunk: int, stages: range, first: int) -> int:
        """Return the time of passes on stages, each with one transfer."""
        hops = kappa[first : first + len(stages)]
        return sum(took[j][kind][chunk] for j in stages) + sum(hops)

    for i, ns in enumerate(took):
        down, up = (range(i), 0), (range(i + 1, p), i)
        home = along("B", 0, *down)
        #: What is between a pass and the one before it.
        after = {
            ("F", 0): along("F", 0, *down),
            ("F", 1): along("F", 0, *up) + along("F", 1, *up),
            ("B", 1): along("F", 1, *down) + along("B", 1, *down),
            ("B", 0): along("B", 1, *up) + along("B", 0, *up),
            ("W", 0): 0,
            ("W", 1): 0,
        }
        free, ready = 0, [0] * times.microbatches
        for kind, number in times.orders.of(i):
            micro, chunk = divmod(number, FOLDED_CHUNKS)
            free = max(free, ready[micro] + after[kind, chunk]) + ns[kind][chunk]
            if kind != "W":
                ready[micro] = free
        tail = home + took[0]["W"][0] + times.sync_ns[0]
        yield max(free + times.sync_ns[i], max(ready) + tail)
