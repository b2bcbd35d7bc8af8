"""Interleaved 1F1B: the order of passes, what stages hold, and when all is done."""

from __future__ import annotations

import itertools
from fractions import Fraction
from random import Random

import pytest

from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.schedule.closed_form import closed_form_ns
from hetopt.schedule.orders import Orders
from hetopt.schedule.paths import path_bound_ns
from hetopt.schedule.run import simulate
from hetopt.schedule.shares import Share, Sharing
from hetopt.schedule.times import Chunks, PipelineTimes
from hetopt.schedule.warmup import held_ahead, held_at_ends, warmup_counts
from tests.oracle import chunks as oracle
from tests.schedule.as_checked import closed_form_of, makespan_of

SHAPES = [(p, p * k, v) for p in (2, 3, 4, 5) for k in (1, 2, 3) for v in (2, 3, 4)]


def draw(rng: Random, *, spread: float = 0.3, slow: float = 0.5) -> PipelineTimes:
    """Draw a pipeline whose stages hold chunks, with units at both ends."""
    p, v = rng.randint(2, 6), rng.randint(2, 4)
    q = p * rng.randint(1, 5)
    scale = rng.choice((40, 10_000))

    def near(share: float) -> int:
        return max(1, round(share * scale * rng.uniform(1 - spread, 1 + spread)))

    ends = [tuple(v * rng.randint(0, scale // 10) for _ in range(2)) for _ in range(2)]
    forward, backward = ([near(x) for _ in range(p)] for x in (1, 2))
    for stage, (more, more_back) in zip((0, -1), ends, strict=True):
        forward[stage] += more // v
        backward[stage] += more_back // v
    transfer = [rng.randint(0, round(slow * scale)) for _ in range(p)]
    occupancy = [rng.randint(0, kappa) for kappa in transfer]
    return PipelineTimes(
        schedule="interleaved-1f1b",
        microbatches=q,
        forward_ns=tuple(forward),
        backward_ns=tuple(backward),
        transfer_ns=tuple(transfer[:-1]),
        occupancy_ns=tuple(occupancy[:-1]),
        sync_ns=tuple(rng.randint(0, scale) for _ in range(p)),
        warmups=warmup_counts(
            "interleaved-1f1b",
            microbatches=q,
            crosses=[False] * (p - 1),
            round_trip_ns=[1] * p,
            transfer_ns=[0] * (p - 1),
            chunks=v,
        ),
        chunks=Chunks(
            count=v,
            way_back_ns=transfer[-1],
            way_back_occupancy_ns=occupancy[-1],
            lead_ns=(ends[0][0], ends[0][1]),
            trail_ns=(ends[1][0], ends[1][1]),
        ),
    )


def longest_path(times: PipelineTimes) -> int:
    """Return the makespan as the longest path in the graph of passes and transfers.

    Passes follow each other as Megatron-LM counts them (``tests.oracle.chunks``), and
    transfers of one direction of a boundary as the passes that they are of.
    """
    chunks = times.chunks
    assert chunks is not None
    p, q, v = times.stages, times.microbatches, chunks.count
    kappa = [*times.transfer_ns, chunks.way_back_ns]
    omega = [*times.occupancy_ns, chunks.way_back_occupancy_ns]
    lists = [oracle.operations(p, q, v, i) for i in range(p)]
    # Starts of passes and of transfers; raised until nothing changes.
    start = {(i, op): 0 for i, ops in enumerate(lists) for op in ops}
    leave = dict.fromkeys(start, 0)

    def took(i: int, op: tuple[bool, int, int]) -> int:
        forward, chunk, _ = op
        side = 0 if forward else 1
        mean = (times.forward_ns, times.backward_ns)[side][i]
        for end, stage, at in (
            (chunks.lead_ns, 0, 0),
            (chunks.trail_ns, p - 1, v - 1),
        ):
            if i == stage:
                mean += end[side] * (chunk == at) - end[side] // v
        return mean

    changed = True
    while changed:
        changed = False
        for i, ops in enumerate(lists):
            before: tuple[bool, int, int] | None = None
            carried: dict[bool, tuple[bool, int, int]] = {}
            for op in ops:
                forward, chunk, m = op
                least = 0 if before is None else start[i, before] + took(i, before)
                if forward and (i or chunk):
                    source = (i - 1) % p, (True, chunk - (i == 0), m)
                    least = max(least, leave[source] + kappa[(i - 1) % p])
                if not forward and (i < p - 1 or chunk < v - 1):
                    source = (i + 1) % p, (False, chunk + (i == p - 1), m)
                    least = max(least, leave[source] + kappa[i])
                send = least + took(i, op)
                boundary = i if forward else (i - 1) % p
                if forward in carried:
                    send = max(send, leave[i, carried[forward]] + omega[boundary])
                is_last = (i, chunk) == ((p - 1, v - 1) if forward else (0, 0))
                if not is_last:
                    carried[forward] = op
                if start[i, op] != least or leave[i, op] != send:
                    start[i, op], leave[i, op] = least, send
                    changed = True
                before = op
    return max(
        start[i, ops[-1]] + took(i, ops[-1]) + times.sync_ns[i]
        for i, ops in enumerate(lists)
    )


@pytest.mark.parametrize(("p", "q", "v"), SHAPES)
def test_order_and_memory_are_megatrons(p: int, q: int, v: int) -> None:
    counts = oracle.warmups(p, v)
    orders = Orders(warmups=tuple(counts), microbatches=q, chunks=v)
    for i in range(p):
        ops = oracle.operations(p, q, v, i)
        found = [
            (kind == "F", *orders.chunk_and_microbatch(number))
            for kind, number in orders.of(i)
        ]
        assert found == ops
        assert oracle.most_held(p, q, v, i, None) == min(counts[i], q * v)
        assert counts[i] - held_ahead(p, v) == 1 + 2 * (p - 1 - i)
    first, last = held_at_ends("interleaved-1f1b", p, q, v)
    assert first == oracle.most_held(p, q, v, 0, 0)
    assert last == oracle.most_held(p, q, v, p - 1, v - 1)
    # What bounds that know no p count on: as much as warm-ups alone.
    assert first >= min(counts[0] - held_ahead(p, v), q * v - held_ahead(p, v))


@pytest.mark.parametrize("seed", range(40))
def test_simulation_is_the_longest_path(seed: int) -> None:
    _ensure_longest(Random(seed))


@pytest.mark.slow
def test_more_simulations_are_the_longest_path() -> None:
    rng = Random(20_000)
    for _ in range(1000):
        _ensure_longest(rng)


def _ensure_longest(rng: Random) -> None:
    times = draw(rng, spread=rng.choice((0.0, 0.1, 0.6)), slow=rng.choice((0, 0.3, 3)))
    simulation = simulate(times)
    assert simulation.makespan_ns == longest_path(times)
    assert makespan_of(times) == simulation.makespan_ns
    assert closed_form_of(times) == closed_form_ns(times) <= simulation.makespan_ns
    assert path_bound_ns(times) <= closed_form_ns(times)
    path = simulation.critical_path()
    assert path[0].start_ns == 0
    assert path[-1].end_ns == simulation.makespan_ns
    assert all(a.end_ns == b.start_ns for a, b in itertools.pairwise(path))


@pytest.mark.parametrize("shape", SHAPES)
def test_closed_form_is_exact_where_all_is_alike(shape: tuple[int, int, int]) -> None:
    p, q, v = shape
    for kappa in (0, 10, 20, 40):
        times = PipelineTimes(
            schedule="interleaved-1f1b",
            microbatches=q,
            forward_ns=(100,) * p,
            backward_ns=(200,) * p,
            transfer_ns=(kappa,) * (p - 1),
            occupancy_ns=(kappa // 2,) * (p - 1),
            sync_ns=(7,) * p,
            warmups=tuple(oracle.warmups(p, v)),
            chunks=Chunks(count=v, way_back_ns=kappa, way_back_occupancy_ns=kappa // 2),
        )
        simulated = simulate(times).makespan_ns
        assert 0 <= 1 - closed_form_ns(times) / simulated < Fraction(35, 1000)
        if not kappa:
            assert closed_form_ns(times) == simulated


def test_shared_links_take_turns() -> None:
    """Both boundaries of two clusters are on one link: they wait for each other."""
    drawn = (draw(Random(seed)) for seed in range(100))
    times = next(each for each in drawn if each.stages == 2)
    assert times.chunks is not None
    alone = (times.occupancy_ns[0], times.chunks.way_back_occupancy_ns)
    share = Share(
        service_ns=4 * max(times.forward_ns), boundaries=(0, 1), outward=(True, False)
    )
    shared = PipelineTimes(
        **{
            name: getattr(times, name)
            for name in times.__dataclass_fields__
            if name != "sharing"
        },
        sharing=Sharing(all_first=False, occupancy_ns=alone, shares=(share,)),
    )
    assert simulate(shared).makespan_ns > simulate(times).makespan_ns


def test_impossible_pipelines_are_refused() -> None:
    good = draw(Random(1))
    kept = {name: getattr(good, name) for name in good.__dataclass_fields__}
    with pytest.raises(ValueError, match="expected a multiple of at least 2 stages"):
        PipelineTimes(**{**kept, "microbatches": good.stages + 1})
    with pytest.raises(ValueError, match="1 chunk, expected at least 2"):
        Chunks(count=1, way_back_ns=0, way_back_occupancy_ns=0)


def test_units_of_chunks_are_all_of_the_models() -> None:
    strategy = Strategy(dp=1, cp=1, tp=1)
    ends = [(0, 3), (3, 4), (4, 8)]
    plan = Plan(
        schedule="interleaved-1f1b",
        pipelines=(
            Pipeline(
                microbatches=3,
                stages=tuple(
                    Stage(
                        cluster="a",
                        first_unit=first,
                        end_unit=end,
                        strategy=strategy,
                        warmup=1,
                    )
                    for first, end in ends
                ),
            ),
        ),
        problem_digest="0" * 64,
        table_digest="0" * 64,
        chunks=3,
    )
    held = [plan.chunk_units(stage) for stage in plan.pipeline.stages]
    in_order = [span for chunk in zip(*held, strict=True) for span in chunk]
    assert in_order[0] == (0, 3)
    assert in_order[-1] == (16, 20)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(in_order))
    assert Plan.from_json(plan.to_json()) == plan
