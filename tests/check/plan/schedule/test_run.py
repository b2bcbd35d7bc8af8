"""The checker's run of every schedule is the longest path of an explicit event graph.

The graph takes its orders of passes from the oracle or from this file, and knows what
each schedule's passes wait for; the run shares nothing with it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import pytest

from hetopt.check.plan.schedule import run
from hetopt.check.plan.schedule.meeting import Alone, Way
from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.check.plan.schedule.times import Times, alike, last_ends, warmups
from hetopt.problem.training.choices import SCHEDULE_CHOICES
from hetopt.schedule.orders import FOLDS, Orders
from hetopt.schedule.run import simulate
from hetopt.schedule.shares import Share, Sharing
from tests.oracle import chunks as interleaved
from tests.oracle import folding
from tests.schedule.as_checked import makespan_of
from tests.schedule.test_chunks import draw as chunked
from tests.schedule.test_folding import folded_pipeline
from tests.schedule.test_weights import split_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hetopt.check.plan.schedule.times import ByChunk
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.schedule.times import PipelineTimes

    #: Letter of the kind (F, B, W; or x, an exchange), stage, chunk, micro-batch.
    Event = tuple[str, int, int, int]


def drawn(
    rng: Random, schedule: ScheduleName, lengths: int = 1
) -> tuple[list[Times], tuple[int, ...]]:
    """Draw times of each length, and warm-ups; no pass takes no time."""
    steps = STEPS[schedule]
    p, v = rng.randint(1, 5), 1
    q = rng.randint(1, 9)
    if steps.interleaved:
        p, v = max(p, 2), rng.randint(2, 4)
        q = p * rng.randint(1, 3)
    elif steps.folded:
        v, q = 2, rng.randint(p + 1, 4 * p)
    slow = rng.choice((0, 6, 60))
    boundaries = p if steps.interleaved else p - 1

    def passes() -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(rng.randint(1, 30) for _ in range(p)) for _ in range(v))

    each = []
    for _ in range(lengths):
        weight = passes() if steps.splits else ()
        backward = passes()
        if weight:
            pairs = zip(backward, weight, strict=True)
            backward = tuple(tuple(map(sum, zip(*pair, strict=True))) for pair in pairs)
        transfer = tuple(2 * rng.randint(0, slow) for _ in range(boundaries))
        occupancy = tuple(2 * rng.randint(0, kappa // 2) for kappa in transfer)
        crossing: tuple[ByChunk, ByChunk] = (), ()
        if steps.interleaved:
            crossing = alike(transfer, v), alike(occupancy, v)
        each.append(
            Times(
                schedule=schedule,
                microbatches=q if lengths == 1 else rng.randint(1, 5),
                forward=passes(),
                backward=backward,
                weight=weight,
                transfer=transfer,
                occupancy=occupancy,
                sync=(0,) * p,
                crossing=crossing,
            )
        )
    clusters = [rng.choice("ab") for _ in range(p)]
    if not steps.free:
        return each, warmups(each[0], clusters)
    falling = sorted((rng.randint(1, 9) for _ in range(p)), reverse=True)
    return each, tuple(falling)


def order_of(times: Times, warm: int, i: int, q: int) -> list[tuple[str, int, int]]:
    """Return letter, chunk and micro-batch of what a stage does, in order."""
    steps, p, v = STEPS[times.schedule], len(times.sync), len(times.forward)
    if block := FOLDS.get(times.schedule):
        # Held against the checker's in tests/schedule/test_blocks.py.
        orders = Orders(
            warmups=(1,) * p,
            microbatches=q,
            chunks=2,
            folded=True,
            block=block,
            splits=True,
        )
        return [(kind, number % 2, number // 2) for kind, number in orders.of(i)]
    if steps.folded:
        return folding.operations(p, q, i)
    if steps.interleaved:
        listed = interleaved.operations(p, q, v, i)
        return [("F" if forward else "B", chunk, m) for forward, chunk, m in listed]
    ahead, own = min(warm, q), []
    for n in range(q + ahead):
        # The n-th forward, after the backward that made room for it.
        if (m := n - ahead) >= 0:
            own.append(("B", 0, m))
            if steps.splits and m >= i:
                own.append(("W", 0, m - i))
        if n < q:
            own.append(("F", 0, n))
    return own + [("W", 0, m) for m in range(max(q - i, 0), q) if steps.splits]


def feeds(times: Times, event: Event) -> Event | None:
    """Return the pass that waits for an output on another stage."""
    letter, i, chunk, m = event
    steps, p, v = STEPS[times.schedule], len(times.sync), len(times.forward)
    step = {"F": 1, "B": -1, "W": p}[letter]
    if steps.folded and chunk:
        step = -step
    if 0 <= i + step < p:
        return letter, i + step, chunk, m
    if steps.interleaved and 0 <= chunk + step < v:
        return letter, (i + step) % p, chunk + step, m
    return None


def longest_path(each: list[Times], counts: tuple[int, ...]) -> list[int]:
    """Return the end of each stage's last pass, by relaxing until nothing changes."""
    first = each[0]
    of = [times for times in each for _ in range(times.microbatches)]
    halves = 2 if STEPS[first.schedule].folded else 1
    starts: dict[Event, int] = {}
    edges: list[tuple[Event, Event, int]] = []

    def took(event: Event) -> int:
        letter, i, chunk, m = event
        later = of[m].weight[chunk][i] if of[m].weight else 0
        lasts = {"F": of[m].forward, "B": of[m].backward, "W": of[m].weight}[letter]
        return lasts[chunk][i] - (later if letter == "B" else 0)

    lists = [
        [(letter, i, c, m) for letter, c, m in order_of(first, warm, i, len(of))]
        for i, warm in enumerate(counts)
    ]
    for own in lists:
        starts |= dict.fromkeys(own, 0)
        edges += [(after, before, took(before)) for before, after in pairwise(own)]
        sent: dict[object, Event] = {}
        for event in own:
            if (to := feeds(first, event)) is None:
                continue
            letter, i, chunk, m = event
            # Boundary p - 1 is the way back of interleaved chunks.
            b = min(i, to[1]) if chunk == to[2] else len(counts) - 1
            leaves = ("sends " + letter, i, chunk, m)
            edges.append((leaves, event, took(event)))
            edges.append((to, leaves, of[m].transfer[b] // halves))
            link = b, to[1]
            if link in sent:
                before = sent[link]
                omega = of[before[3]].occupancy[b] // halves
                edges.append((leaves, before, omega))
            sent[link] = leaves
            starts[leaves] = 0
    relax(starts, edges)
    return [starts[own[-1]] + took(own[-1]) for own in lists]


def relax(starts: dict[Event, int], edges: list[tuple[Event, Event, int]]) -> None:
    changed = True
    while changed:
        changed = False
        for event, before, delay in edges:
            if starts[before] + delay > starts[event]:
                starts[event] = starts[before] + delay
                changed = True


def blocking_path(times: Times, counts: tuple[int, ...]) -> list[int]:
    """Return the same where an exchange occupies both stages of a boundary."""
    p, q, kappa = len(counts), times.microbatches, times.transfer
    both = STEPS[times.schedule].blocking
    lasts: dict[Event, int] = {}

    def exchange(boundary: int, sent: int, came: int) -> Iterator[Event]:
        """Yield the exchange of an activation and a gradient that may not exist."""
        real = [0 <= m < q for m in (sent, came)]
        if any(real) and 0 <= boundary < p - 1:
            event = ("x", boundary, sent if real[0] else -1, came if real[1] else -1)
            lasts[event] = kappa[boundary] * (both if all(real) else 1)
            yield event

    lists = []
    for i in range(p):
        own: list[Event] = []
        ahead = p - 1 - i
        for n in range(q + ahead):
            if n <= ahead:
                own += exchange(i - 1, n, -1)
            if n < q:
                own.append(("F", i, 0, n))
            own += exchange(i, n, n - ahead)
            if n >= ahead:
                own.append(("B", i, 0, n - ahead))
                own += exchange(i - 1, n + 1, n - ahead)
        lists.append(own)
        lasts |= {e: times.forward[0][i] for e in own if e[0] == "F"}
        lasts |= {e: times.backward[0][i] for e in own if e[0] == "B"}
    starts = dict.fromkeys(lasts, 0)
    every = [pair for own in lists for pair in pairwise(own)]
    relax(starts, [(after, before, lasts[before]) for before, after in every])
    ends = [("B", i, 0, q - 1) for i in range(p)]
    return [starts[end] + lasts[end] for end in ends]


def agrees(each: list[Times], counts: tuple[int, ...]) -> None:
    if STEPS[each[0].schedule].blocking:
        expected = blocking_path(each[0], counts)
    else:
        expected = longest_path(each, counts)
    assert last_ends(each, counts) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "PAYS_FROM", 0)
        assert last_ends(each, counts) == expected


@pytest.mark.parametrize("schedule", SCHEDULE_CHOICES)
def test_a_run_is_the_longest_path(schedule: ScheduleName) -> None:
    for seed in range(40):
        agrees(*drawn(Random(seed), schedule))


MIXING: tuple[ScheduleName, ...] = ("1f1b", "eager-1f1b", "virtual-1f1b")


@pytest.mark.parametrize("lengths", [2, 3])
def test_with_several_lengths_too(lengths: int) -> None:
    for seed in range(40):
        schedule = MIXING[seed % len(MIXING)]
        agrees(*drawn(Random(seed), schedule, lengths))


def test_activations_go_before_gradients_that_are_ready_with_them() -> None:
    """By hand: activations of the first boundary meet gradients of the second."""
    # F 0-10-20 | F 10-11 20-21, B 27-28 34-35 | F B 11-12-20 21-22-30; B 28-29 35-36
    times = sharing(((10, 1, 1), (1, 1, 8)), (1, -1))
    assert last_ends([times], (3, 2, 1)) == [36, 35, 30]


def test_of_activations_that_are_ready_those_upstream_go_first() -> None:
    """By hand: activations of both boundaries meet."""
    # F 0-10-20 | F 10-20-30, B 30-31 43-44 | F B 27-28-29 34-35-36; B 36-37 50-51
    times = sharing(((10, 10, 1), (1, 1, 1)), (1, 1))
    assert last_ends([times], (3, 2, 1)) == [51, 44, 36]


def test_a_link_may_have_several_parts() -> None:
    """By hand: two stages, and a part that takes 7 ns beside one that takes none."""
    times = sharing(((1, 1), (1, 1)), (1,))
    # F 0-1-2, B 3-4 10-11 | F B 1-2-3 8-9-10
    assert last_ends([times], (2, 1)) == [11, 10]


def sharing(passes: tuple[tuple[int, ...], ...], sides: tuple[int, ...]) -> Times:
    """Return stages that send two micro-batches over one link, for 7 ns each."""
    ways = tuple((Way(frozenset({0}), side, 7),) for side in sides)
    free = (0,) * len(sides)
    return Times(
        schedule="1f1b",
        microbatches=2,
        forward=passes[:1],
        backward=passes[1:],
        transfer=free,
        occupancy=free,
        sync=(*free, 0),
        alone=Alone(in_phases=False, occupancy=free, ways=ways),
    )


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("family", [split_pipeline, folded_pipeline, chunked])
def test_shared_links_are_those_of_the_product(
    family: Callable[[Random], PipelineTimes], seed: int
) -> None:
    rng = Random(seed)
    times = family(rng)
    boundaries = range(len(times.occupancy_ns) + (times.chunks is not None))
    shares = []
    for _ in range(rng.randint(1, 3)):
        users = [b for b in boundaries if rng.random() < 0.7]
        outward = tuple(rng.random() < 0.5 for _ in users)
        service = 2 * rng.randint(0, 40)
        if len(users) > 1:
            shares.append(
                Share(service_ns=service, boundaries=tuple(users), outward=outward)
            )
    omega = tuple(2 * rng.randint(0, 10) for _ in boundaries)
    shared = Sharing(all_first=False, occupancy_ns=omega, shares=tuple(shares))
    together = replace(times, sharing=shared)
    assert makespan_of(together) == simulate(together).makespan_ns


def test_passes_that_take_no_time_send_in_the_order_of_forwards() -> None:
    """Only the embedding takes time."""
    for seed in range(60):
        times = chunked(Random(seed))
        assert times.chunks is not None
        rest = (0,) * (times.stages - 1)
        forward, backward = (2 * times.chunks.count, 3 * times.chunks.count)
        times = replace(
            times,
            forward_ns=(2, *rest),
            backward_ns=(3, *rest),
            chunks=replace(times.chunks, lead_ns=(forward, backward), trail_ns=(0, 0)),
        )
        assert makespan_of(times) == simulate(times).makespan_ns
