"""Warm-up counts that a schedule prescribes (MODEL.md section 4)."""

from __future__ import annotations

from functools import lru_cache
from operator import ge
from typing import TYPE_CHECKING

import numpy as np

from hetopt.schedule.orders import FOLDED_CHUNKS, FOLDS, Orders
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hetopt.problem.training.choices import ScheduleName
    from hetopt.schedule.orders import Pass


def warmup_counts(
    schedule: ScheduleName,
    *,
    microbatches: int,
    crosses: Sequence[bool],
    round_trip_ns: Sequence[int],
    transfer_ns: Sequence[int],
    chunks: int = 1,
    epsilon: float | None = None,
) -> tuple[int, ...]:
    """Return the warm-up count W of every stage, first stage first.

    The last stage has 1, plus what every stage runs ahead if stages hold several
    chunks, and each other stage has ``delta`` more than the next (HAPT, Eq. 1); every
    stage has q if all forwards come first. The least of a free schedule, 1, is enough
    for any plan that fits at all.

    Parameters
    ----------
    microbatches
        q. Counts may exceed it: memory and the simulator cut them to q, the period
        does not.
    crosses
        Whether each boundary joins two clusters; length p - 1.
    round_trip_ns
        tau of each stage; length p.
    transfer_ns
        kappa of each boundary; length p - 1.
    chunks
        v, chunks per stage; if there are several, counts are of passes.
    epsilon
        ``warmup_epsilon`` of a schedule that has one; None: its default.

    Raises
    ------
    ValueError
        If the schedule is unknown, or the lengths do not fit.
    """
    stages = len(round_trip_ns)
    if not stages or not len(crosses) == len(transfer_ns) == stages - 1:
        msg = (
            f"{stages} stages, {len(crosses)} crossings and {len(transfer_ns)} "
            "transfers, expected one stage more than there are boundaries"
        )
        raise ValueError(msg)
    rule = rule_of(schedule, epsilon)
    if rule.all_first:
        return (microbatches,) * stages
    if block := FOLDS.get(schedule):
        return _of_block(block, stages)
    longest = max(*round_trip_ns, *transfer_ns, 0)
    counts = [1 + (stages if rule.folded else held_ahead(stages, chunks))]
    for kappa, crossing in zip(reversed(transfer_ns), reversed(crosses), strict=True):
        counts.append(counts[-1] + rule.delta(kappa, longest, crosses=crossing))
    return tuple(reversed(counts))


@lru_cache(maxsize=4096)
def _of_block(block: str, stages: int) -> tuple[int, ...]:
    """Return the counts of an order that repeats a building block."""
    orders = Orders(
        warmups=(1,) * stages,
        # Counts are the same for all larger q.
        microbatches=stages + 1,
        chunks=FOLDED_CHUNKS,
        folded=True,
        block=block,
        splits=True,
    )
    return tuple(map(orders.ahead, range(stages)))


def held_ahead(stages: int, chunks: int) -> int:
    """Return how many passes every stage runs ahead besides its warm-ups: (v - 1) p."""
    return (chunks - 1) * stages


def few_microbatches(stages: int, microbatches: int) -> int:
    """Return how many micro-batches tell how stages with several chunks go on.

    Every stage alternates before it has run 4 p, and then holds no more.
    """
    return min(microbatches, 4 * stages)


def held_at_ends(
    schedule: ScheduleName, stages: int, microbatches: int, chunks: int
) -> tuple[int, int]:
    """Return how many micro-batches the embedding and the head hold at once.

    That is the first chunk of the first stage, and the last one, if stages hold several
    chunks; counted along the order of passes, which does not depend on times.

    Parameters
    ----------
    stages, microbatches, chunks
        p, q and v; q is a multiple of p unless stages are folded.
    """
    few = few_microbatches(stages, microbatches)
    return _few_at_ends(schedule, stages, few, chunks)


@lru_cache(maxsize=4096)
def _few_at_ends(
    schedule: ScheduleName, stages: int, microbatches: int, chunks: int
) -> tuple[int, int]:
    rule = rule_of(schedule)
    orders = _orders_of(schedule, stages, microbatches, chunks)
    until = "W" if rule.splits else "B"
    last = 0 if rule.folded else stages - 1
    return orders.most_held(0, 0, until), orders.most_held(last, chunks - 1, until)


def held_together(
    schedule: ScheduleName, stages: int, microbatches: int
) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Return what every folded stage holds at once: the counts that it comes to.

    Of the first chunk, and then of the second: micro-batches that wait for their ``B``,
    that wait for their ``W``, and that are in their ``B``. Counts that others of the
    stage include are left out.

    Parameters
    ----------
    stages, microbatches
        p, and q > p.
    """
    return _few_together(schedule, stages, few_microbatches(stages, microbatches))


@lru_cache(maxsize=1024)
def _few_together(
    schedule: ScheduleName, stages: int, microbatches: int
) -> tuple[tuple[tuple[int, ...], ...], ...]:
    orders = _orders_of(schedule, stages, microbatches, FOLDED_CHUNKS)
    return tuple(_largest(_counts(orders.of(stage))) for stage in range(stages))


def _counts(passes: Iterator[Pass]) -> set[tuple[int, ...]]:
    """Return all counts that a folded stage comes to."""
    held = [0] * (3 * FOLDED_CHUNKS)
    found = set()
    for kind, number in passes:
        at = 3 * (number % FOLDED_CHUNKS)
        if kind == "F":
            held[at] += 1
            found.add(tuple(held))
        elif kind == "B":
            held[at] -= 1
            found.add((*held[: at + 2], 1, *held[at + 3 :]))
            held[at + 1] += 1
        else:
            held[at + 1] -= 1
    return found


def _largest(counts: set[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Return the counts that no other one exceeds."""
    found: list[tuple[int, ...]] = []
    for each in sorted(counts, key=sum, reverse=True):
        if not any(all(map(ge, other, each)) for other in found):
            found.append(each)
    return tuple(found)


def _orders_of(
    schedule: ScheduleName, stages: int, microbatches: int, chunks: int
) -> Orders:
    """Return the orders of a schedule that do not depend on times."""
    rule = rule_of(schedule)
    return Orders(
        warmups=warmup_counts(
            schedule,
            microbatches=microbatches,
            crosses=(False,) * (stages - 1),
            round_trip_ns=(0,) * stages,
            transfer_ns=(0,) * (stages - 1),
            chunks=chunks,
        ),
        microbatches=microbatches,
        chunks=chunks,
        folded=rule.folded,
        block=FOLDS.get(schedule, ""),
        splits=rule.splits,
    )


@lru_cache(maxsize=4096)
def held_by_chunk(
    stages: int, chunks: int, microbatches: int, stage: int
) -> NDArray[np.int64]:
    """Return the micro-batches that the chunks of a stage hold at once, if interleaved.

    Only vectors that no other one contains; shape (number, v).
    """
    microbatches = min(microbatches, 4 * stages)
    ahead = held_ahead(stages, chunks)
    orders = Orders(
        warmups=tuple(1 + ahead + 2 * after for after in reversed(range(stages))),
        microbatches=microbatches,
        chunks=chunks,
    )
    passes = list(orders.of(stage))
    steps = np.zeros((len(passes), chunks), np.int64)
    own = [orders.chunk_and_microbatch(number)[0] for _, number in passes]
    steps[range(len(own)), own] = [1 if kind == "F" else -1 for kind, _ in passes]
    every = np.unique(steps.cumsum(axis=0), axis=0)
    inside = (every[:, None] <= every).all(axis=2).sum(axis=1)
    found: NDArray[np.int64] = every[inside == 1]
    return found
