"""Interleaved 1F1B with chunks that differ: times, closed form, and what is held."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from hetopt.schedule.closed_form import closed_form_ns
from hetopt.schedule.orders import Orders
from hetopt.schedule.run import simulate
from hetopt.schedule.warmup import held_by_chunk
from tests.schedule.as_checked import closed_form_of, makespan_of
from tests.schedule.uneven import KINDS, draw, longest_path, of_table, uneven

#: Pipelines of each seed: one for every way in which chunks differ, and for links.
SLOW = (0.0, 0.2, 0.5, 1.5)


@pytest.mark.parametrize("seed", range(100))
def test_product_checker_and_longest_path_agree(seed: int) -> None:
    for kind, slow in product(KINDS, SLOW):
        times = draw(Random(f"{seed} {kind} {slow}"), kind, slow)
        simulation = simulate(times)
        assert simulation.makespan_ns == makespan_of(times) == longest_path(times)
        bound = closed_form_ns(times)
        assert bound == closed_form_of(times)
        assert bound <= simulation.makespan_ns
        path = simulation.critical_path()
        assert path[0].start_ns == 0
        assert sum(each.end_ns - each.start_ns for each in path) == path[-1].end_ns


@pytest.mark.parametrize("seed", range(10))
def test_the_closed_form_is_exact_where_chunks_are_equal(seed: int) -> None:
    rng = Random(seed)
    p, v = rng.randint(2, 8), rng.randint(2, 6)
    forward, backward = ([[n] * v] * p for n in (100, rng.randint(100, 300)))
    nothing = [[0] * v] * p
    sync = [rng.randint(0, 500) for _ in range(p)]
    times = uneven(forward, backward, nothing, nothing, sync, rng.randint(1, 5))
    assert closed_form_ns(times) == simulate(times).makespan_ns


def test_the_closed_form_is_near_where_only_the_ends_differ() -> None:
    gaps = {
        kind: [
            simulate(times).makespan_ns / float(closed_form_ns(times)) - 1
            for seed in range(20)
            for times in [draw(Random(f"{seed} {kind} gap"), kind, 0.2)]
        ]
        for kind in ("equal", "ends")
    }
    assert max(gaps["equal"]) < 0.01
    assert np.median(gaps["ends"]) < 0.01


@pytest.mark.parametrize(("p", "v", "groups"), [(2, 2, 1), (3, 4, 2), (4, 3, 7)])
def test_held_vectors_are_those_of_the_order(p: int, v: int, groups: int) -> None:
    q = groups * p
    warmups = tuple(1 + 2 * (p - 1 - i) + (v - 1) * p for i in range(p))
    orders = Orders(warmups=warmups, microbatches=q, chunks=v)
    for stage in range(p):
        held, seen = [0] * v, set()
        for kind, number in orders.of(stage):
            chunk, _ = orders.chunk_and_microbatch(number)
            held[chunk] += 1 if kind == "F" else -1
            seen.add(tuple(held))
        vectors = held_by_chunk(p, v, q, stage)
        rng = np.random.default_rng(stage)
        for weights in rng.integers(0, 9, (50, v)):
            most = max(int(np.dot(each, weights)) for each in seen)
            assert most == (vectors @ weights).max()


def test_few_vectors_say_what_stages_hold() -> None:
    assert len(held_by_chunk(8, 8, 192, 0)) == 26
    assert len(held_by_chunk(16, 8, 192, 0)) == 50


def test_a_published_layout_is_quicker_than_equal_chunks() -> None:
    """Llama-3-70B on 64 H100: Megatron-Bridge's PR 5391 (MODEL3.md, A6)."""
    equal = [[2] * 5 for _ in range(8)]
    published = [list(own) for own in equal]
    published[3][4], published[7][4] = 3, 1
    for held, expected_ns in ((equal, 24810658747), (published, 23887184509)):
        times = of_table("pr5391.json", "none", held, 16)
        assert simulate(times).makespan_ns == expected_ns == closed_form_ns(times)


@pytest.mark.parametrize(("v", "expected_ns"), [(8, 41492493614), (4, 41635480366)])
def test_llama_405b_with_embedding_and_loss_as_layers(v: int, expected_ns: int) -> None:
    """126 layers in 8 stages (MODEL3.md, A6)."""
    held = [[16 // v] * v for _ in range(8)]
    held[0][0] -= 1
    held[-1][-1] -= 1
    times = of_table("l405.json", "none", held, 24)
    assert simulate(times).makespan_ns == pytest.approx(expected_ns, rel=1e-5)
