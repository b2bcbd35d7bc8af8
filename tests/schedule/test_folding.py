"""Folded pipelines: order, simulation, memory and closed form."""

from __future__ import annotations

from itertools import pairwise
from operator import mul
from random import Random
from typing import Any

import pytest

from hetopt.schedule.closed_form import closed_form_ns
from hetopt.schedule.orders import Orders
from hetopt.schedule.run import simulate
from hetopt.schedule.shares import Share, Sharing
from hetopt.schedule.times import Fold, PipelineTimes
from hetopt.schedule.warmup import held_at_ends, held_together
from tests.oracle import folding as oracle
from tests.schedule.as_checked import closed_form_of, makespan_of
from tests.schedule.pipelines import Edge, Event, longest_paths

SHAPES = [(p, q) for p in range(1, 7) for q in (p + 1, 2 * p, 3 * p + 1, 5 * p)]


def folded_pipeline(random: Random, stages: int | None = None) -> PipelineTimes:
    """Draw a folded pipeline whose stages hold one pair of units each."""
    p = stages or random.randint(1, 6)
    q = random.randint(p + 1, 4 * p + 1)
    spread = random.choice((0, 2, 30))
    forward, before, later = (
        [[random.randint(60 - spread, 60 + spread) for _ in range(2)] for _ in range(p)]
        for _ in range(3)
    )
    slow = random.choice((0, 10, 80))
    transfer = [2 * random.randint(0, slow) for _ in range(p - 1)]
    backward = [
        [max(b, w) + w for b, w in zip(*each, strict=True)]
        for each in zip(before, later, strict=True)
    ]
    phi, beta, w = (list(map(sum, each)) for each in (forward, backward, later))
    passed = [b - each for b, each in zip(beta, w, strict=True)]
    return PipelineTimes(
        schedule="zb-v",
        microbatches=q,
        forward_ns=tuple(phi),
        backward_ns=tuple(beta),
        weight_ns=tuple(w),
        transfer_ns=tuple(transfer),
        occupancy_ns=tuple(2 * random.randint(0, kappa // 2) for kappa in transfer),
        sync_ns=tuple(random.randint(0, 50) for _ in range(p)),
        warmups=tuple(range(2 * p, p, -1)),
        fold=Fold(
            forward_ns=tuple(each[0] for each in forward),
            backward_ns=tuple(each[0] for each in backward),
            weight_ns=tuple(each[0] for each in later),
            handed_on_ns=tuple(map(max, phi, passed)),
            fill_ns=tuple(
                max((b + 1) // 2, b - each, f - b // 2)
                for f, b, each in zip(phi, passed, w, strict=True)
            ),
        ),
    )


def lasts(times: PipelineTimes, kind: str, stage: int, chunk: int) -> int:
    """How long a pass takes."""
    forward, backward = times.durations_ns(stage)
    by_kind = {"F": forward, "B": backward, "W": times.weights_ns(stage)}
    return by_kind[kind][chunk]


def folded_graph(times: PipelineTimes) -> list[Edge]:
    """Every wait as an edge between starts of events, without occupancies."""
    p, q = times.stages, times.microbatches
    edges: list[Edge] = []
    for stage in range(p):
        order = oracle.operations(p, q, stage)
        for (kind, chunk, m), (after, own, n) in pairwise(order):
            event: Event = (after, stage, 2 * n + own)
            took = lasts(times, kind, stage, chunk)
            edges.append((event, (kind, stage, 2 * m + chunk), took))
        final, chunk, m = order[-1]
        end = lasts(times, final, stage, chunk) + times.sync_ns[stage]
        edges.append((("end", 0, 0), (final, stage, 2 * m + chunk), end))
        for kind, chunk, m in order:
            to = stage + (1 if (kind == "F") == (chunk == 0) else -1)
            if kind == "W" or not 0 <= to < p:
                continue
            took = lasts(times, kind, stage, chunk)
            kappa = times.transfer_ns[min(stage, to)] // 2
            number = 2 * m + chunk
            edges.append(((kind, to, number), (kind, stage, number), took + kappa))
    return edges


def agrees(times: PipelineTimes) -> None:
    """Fail unless the simulation starts every event when the graph says so."""
    free = PipelineTimes(
        **{name: getattr(times, name) for name in times.__dataclass_fields__}
        | {"occupancy_ns": (0,) * (times.stages - 1)}
    )
    starts, run = longest_paths(folded_graph(free)), simulate(free)
    assert run.makespan_ns == starts["end", 0, 0]
    for stage in range(times.stages):
        for number in range(times.passes):
            assert run.starts_ns["F"][stage, number] == starts["F", stage, number]
            assert run.starts_ns["B"][stage, number] == starts["B", stage, number]
            assert run.starts_ns["W"][stage, number] == starts["W", stage, number]


@pytest.mark.parametrize("seed", range(40))
def test_simulation_is_the_longest_path(seed: int) -> None:
    agrees(folded_pipeline(Random(seed)))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 2000, 100))
def test_simulation_is_the_longest_path_of_many(first: int) -> None:
    for seed in range(1000 + first, 1100 + first):
        agrees(folded_pipeline(Random(seed)))


@pytest.mark.parametrize(("p", "q"), SHAPES)
def test_the_order_is_that_of_the_oracle(p: int, q: int) -> None:
    warmups = tuple(range(2 * p, p, -1))
    orders = Orders(warmups=warmups, microbatches=q, chunks=2, folded=True, splits=True)
    for stage in range(p):
        ours = [(kind, n % 2, n // 2) for kind, n in orders.of(stage)]
        assert ours == oracle.operations(p, q, stage)
        assert len(ours) == 6 * q


@pytest.mark.parametrize(("p", "q"), SHAPES)
def test_a_stage_holds_no_more_than_is_said(p: int, q: int) -> None:
    random = Random(p * 100 + q)
    for stage in range(p):
        passes = [each for each in oracle.operations(p, q, stage) if each[0] != "B"]
        held = [0]
        for kind, _, _ in passes:
            held.append(held[-1] + (1 if kind == "F" else -1))
        assert max(held) <= 2 * p
        assert q < 2 * p or max(held) == 2 * p
        for _ in range(20):
            kept = random.randint(0, 9), random.randint(0, 9)
            waits = random.randint(0, 9), random.randint(0, 9)
            down, up = map(max, kept, waits)
            sizes = kept[0], waits[0], down, kept[1], waits[1], up
            counts = held_together("zb-v", p, q)[stage]
            most = max(sum(map(mul, each, sizes)) for each in counts)
            assert oracle.most_bytes(p, q, stage, kept, waits) == most
            if not stage:
                first, second = held_at_ends("zb-v", p, q, 2)
                at_ends = first * down + second * up
                assert oracle.most_bytes(p, q, 0, kept, waits) <= at_ends
    # What is said is what alike units hold.
    assert oracle.most_bytes(p, 3 * p, 0, (5, 5), (3, 3)) == 10 * p


@pytest.mark.parametrize("seed", range(40))
def test_critical_path_has_no_gap(seed: int) -> None:
    run = simulate(folded_pipeline(Random(seed)))
    path = run.critical_path()
    assert path[0].start_ns == 0
    assert all(a.end_ns == b.start_ns for a, b in pairwise(path))
    assert path[-1].kind == "sync"
    assert path[-1].end_ns == run.makespan_ns


@pytest.mark.parametrize("seed", range(80))
def test_closed_form_and_simulation_are_those_of_the_checker(seed: int) -> None:
    times = folded_pipeline(Random(seed))
    assert closed_form_of(times) == closed_form_ns(times)
    assert makespan_of(times) == simulate(times).makespan_ns
    triples = zip(times.forward_ns, times.backward_ns, times.later_ns, strict=True)
    _, exact = oracle.closed_form(
        times.microbatches,
        [[(f, b - w, w)] for f, b, w in triples],
        times.transfer_ns,
        times.occupancy_ns,
        times.sync_ns,
    )
    assert exact == closed_form_ns(times)


@pytest.mark.parametrize("seed", range(20))
def test_exact_where_stages_are_alike_and_transfers_free(seed: int) -> None:
    random = Random(seed)
    p = random.randint(1, 6)
    forward = random.randint(1, 60)
    before = random.randint(forward, 90)
    later = random.randint(0, before)
    times = alike(p, random.randint(2 * p, 4 * p), forward, before, later)
    bubble = (p - 1) * max(before, 2 * (before - later))
    busy = 2 * times.microbatches * (forward + before + later)
    assert closed_form_ns(times) == busy + bubble
    assert simulate(times).makespan_ns == busy + bubble


def alike(p: int, q: int, forward: int, before: int, later: int) -> PipelineTimes:
    """A pipeline of equal chunks, over links that take no time."""
    return PipelineTimes(
        schedule="zb-v",
        microbatches=q,
        forward_ns=(2 * forward,) * p,
        backward_ns=(2 * (before + later),) * p,
        weight_ns=(2 * later,) * p,
        transfer_ns=(0,) * (p - 1),
        occupancy_ns=(0,) * (p - 1),
        sync_ns=(0,) * p,
        warmups=tuple(range(2 * p, p, -1)),
        fold=Fold(
            forward_ns=(forward,) * p,
            backward_ns=(before + later,) * p,
            weight_ns=(later,) * p,
            handed_on_ns=(2 * max(forward, before),) * p,
            fill_ns=(max(before, 2 * (before - later), 2 * forward - before),) * p,
        ),
    )


def test_no_bubble_but_the_way_down_where_all_passes_take_as_long() -> None:
    run = simulate(alike(4, 8, 10, 10, 10))
    assert run.makespan_ns == 2 * 8 * 30 + 3 * 10


def test_what_goes_the_same_way_takes_turns() -> None:
    times = folded_pipeline(Random(3), stages=4)
    many = {name: getattr(times, name) for name in times.__dataclass_fields__}
    many |= {"transfer_ns": (600,) * 3, "occupancy_ns": (0,) * 3}
    free = simulate(PipelineTimes(**many)).makespan_ns
    busy = simulate(PipelineTimes(**{**many, "occupancy_ns": (600,) * 3})).makespan_ns
    # Either way goes one chunk's activation and the other's gradient.
    assert busy > free
    assert busy >= 2 * times.microbatches * 300
    share = Share(service_ns=600, boundaries=(0, 2), outward=(True, True))
    shared = Sharing(all_first=False, occupancy_ns=(600,) * 3, shares=(share,))
    together = PipelineTimes(**{**many, "occupancy_ns": (1200,) * 3, "sharing": shared})
    assert simulate(together).makespan_ns >= max(busy, 4 * times.microbatches * 300)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"fold": None}, "zb-v with stages that are not folded"),
        ({"schedule": "zb-h1"}, "zb-h1 with stages that are folded"),
        ({"microbatches": 4}, "4 folded stages and 4 micro-batches, expected more"),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, Any], message: str) -> None:
    times = folded_pipeline(Random(1), stages=4)
    given = {name: getattr(times, name) for name in times.__dataclass_fields__}
    with pytest.raises(ValueError, match=message):
        PipelineTimes(**{**given, **changed})
