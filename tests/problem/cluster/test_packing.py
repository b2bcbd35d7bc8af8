"""How many stages nodes hold: counted, and put into nodes one by one."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from random import Random

import pytest

from hetopt.check.plan.packing import most_stages, packing_findings
from hetopt.plans.strategy import Strategy
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.cluster.filling import fills_by_sum
from hetopt.problem.cluster.packing import Packed, fits_by_limits, nodes_for, packed
from tests.oracle import nodes as slow
from tests.oracle import plain


def cluster(*sizes: int) -> Cluster:
    unequal = sizes if len(set(sizes)) > 1 else None
    return plain.cluster("a", len(sizes), max(sizes), unequal=unequal)


AFTER_A_LOSS = cluster(8, 8, 8, 7)


@pytest.mark.parametrize(
    ("devices", "tp", "expected"),
    [
        (8, 1, Packed(8, 3)),
        (7, 1, Packed(7, 4)),
        (4, 4, Packed(4, 7)),
        (3, 1, Packed(3, 8)),
        (1, 1, Packed(1, 31)),
        (16, 8, Packed(8, 1)),
        (24, 1, Packed(8, 1)),
        (32, 1, None),
        (28, 7, Packed(7, 1)),
        (14, 2, None),
        (14, 1, Packed(7, 2)),
        (12, 1, None),
        # 7 of eight nodes, or 8 of seven, of which there are but three.
        (56, 1, None),
    ],
)
def test_after_the_loss_of_a_device(
    devices: int, tp: int, expected: Packed | None
) -> None:
    assert packed(AFTER_A_LOSS, devices, tp) == expected


def test_of_two_sizes_the_one_that_holds_more_stages_is_taken() -> None:
    mixed = cluster(8, 8, 4, 4, 4, 4)
    assert packed(mixed, 16, 4) == Packed(8, 1)
    assert packed(cluster(8, 8, *[4] * 8), 16, 4) == Packed(4, 2)
    assert packed(cluster(8, 8, *[4] * 8), 16, 8) == Packed(8, 1)


@pytest.mark.parametrize("seed", range(40))
def test_counts_are_those_of_putting_stages_into_nodes(seed: int) -> None:
    rng = Random(seed)
    own = cluster(*(rng.randint(1, 9) for _ in range(rng.randint(1, 4))))
    for devices, tp in product(range(1, own.devices + 1), range(1, 10)):
        if devices % tp:
            continue
        found = packed(own, devices, tp)
        expected = slow.room(own, devices, tp)
        strategy = Strategy(dp=devices // tp, cp=1, tp=tp)
        assert (found.stages if found else 0) == expected
        assert most_stages(own, strategy) == expected
        if expected and devices * (expected + 1) < 40:
            assert not list(packing_findings(own, [strategy] * expected))
            assert list(packing_findings(own, [strategy] * (expected + 1)))


@pytest.mark.parametrize("seed", range(60))
def test_several_sizes_fit_as_their_limits_say(seed: int) -> None:
    """What the solvers count where P4 is relaxed, against places one by one."""
    rng = Random(seed)
    own = cluster(*(rng.randint(2, 9) for _ in range(rng.randint(1, 3))))
    chain = rng.choice(((1, 2, 4, 8), (1, 3, 6), (1, 2, 6), (2, 4), (1, 5)))
    sizes = [size for size in chain if size <= own.devices_per_node]
    assert fits_by_limits(own, [(size, 1) for size in sizes])
    for _ in range(20):
        stages = [rng.choice(sizes) for _ in range(rng.randint(1, 8))]
        within = all(
            sum(n for n in stages if n >= size) <= size * slow.room(own, size, 1)
            for size in sizes
        )
        needs = [(size, 1) for size in stages]
        assert within == slow.fits(own, needs)
        hosted = [Strategy(dp=size, cp=1, tp=1) for size in stages]
        assert within != bool(list(packing_findings(own, hosted)))


def test_when_counting_devices_is_enough() -> None:
    assert fills_by_sum(cluster(8, 8), (1, 2, 4, 8, 16))
    assert not fills_by_sum(cluster(8, 8), (1, 3))
    assert not fills_by_sum(AFTER_A_LOSS, (8,))
    assert fits_by_limits(AFTER_A_LOSS, [(4, 1), (8, 8), (16, 8)])
    assert not fits_by_limits(AFTER_A_LOSS, [(7, 1), (8, 1)])
    assert not fits_by_limits(AFTER_A_LOSS, [(14, 1)]), "it leaves part of nodes of 8"


@pytest.mark.parametrize("node", [6, 8, 12, 24, 36, 48, 72, 96, 144])
def test_all_divisors_fill_nodes_of_two_primes(node: int) -> None:
    divisors = [n for n in range(1, node + 1) if node % n == 0]
    assert fills_by_sum(cluster(node, node), divisors)


@pytest.mark.parametrize(
    ("node", "stages"),
    [
        (30, (15, 10, 10, 6, 6, 6, 6)),
        (60, (30, 20, 20, 12, 12, 12, 12)),
        (84, (28, 28, 21, 21, 21, 12, 12, 12, 12)),
    ],
)
def test_divisors_that_leave_gaps(node: int, stages: tuple[int, ...]) -> None:
    own = cluster(node, node)
    assert sum(stages) <= 2 * node
    assert not slow.fits(own, [(size, 1) for size in stages])
    assert not fills_by_sum(own, stages)
    assert fills_by_sum(own, stages[:1] + stages[-1:]), "two sizes always fit"


@pytest.mark.parametrize("seed", range(60))
def test_sizes_that_fill_by_their_sum_do(seed: int) -> None:
    """Against places one by one."""
    rng = Random(seed)
    node = rng.choice((12, 18, 24, 30, 36, 60))
    own = cluster(*[node] * rng.randint(2, 3))
    divisors = [n for n in range(2, node + 1) if node % n == 0]
    sizes = rng.sample(divisors, rng.randint(1, 4))
    if not fills_by_sum(own, sizes):
        return
    for _ in range(10):
        stages: list[int] = []
        left = own.devices
        while able := [size for size in sizes if size <= left]:
            stages.append(rng.choice(able))
            left -= stages[-1]
        assert slow.fits(own, [(size, 1) for size in stages])


def test_nodes_to_rent() -> None:
    assert nodes_for(cluster(8, 8, 8), {(3, 1): 4}) == 2
    assert nodes_for(cluster(8, 8, 8), {(16, 1): 1, (2, 1): 3}) == 3
    assert nodes_for(cluster(8, 8, 8), {(2, 1): 3, (2, 2): 1}) == 1
    assert nodes_for(AFTER_A_LOSS, {(7, 1): 4}) == 4
    assert nodes_for(AFTER_A_LOSS, {(4, 1): 7}) == 4


def test_unequal_nodes_of_a_stage_are_those_that_it_is_placed_in() -> None:
    own = cluster(8, 4, 4, 4, 4)
    assert packed(own, 16, 4) == Packed(4, 1)
    assert nodes_for(own, {(16, 4): 1}) == 4
    # The node of 8 is left to the others.
    assert nodes_for(own, {(16, 4): 1, (4, 4): 2}) == 5


def test_unequal_nodes_are_shared_by_stages_of_several_sizes() -> None:
    assert nodes_for(cluster(8, 4, 4), {(8, 8): 1, (4, 4): 2}) == 3
    assert nodes_for(AFTER_A_LOSS, {(4, 4): 1, (2, 2): 2}) == 1
    assert nodes_for(cluster(8, 8, 4, 4, 4, 4), {(16, 8): 1, (4, 4): 4}) == 6


@pytest.mark.parametrize("seed", range(60))
def test_unequal_nodes_are_no_fewer_than_stages_need(seed: int) -> None:
    rng = Random(seed)
    sizes = [rng.choice((2, 4, 8)) for _ in range(rng.randint(2, 5))]
    own = cluster(*sizes)
    stages: Counter[tuple[int, int]] = Counter()
    for _ in range(rng.randint(1, 6)):
        one = (rng.choice((1, 2, 4, 8, 16)), 1)
        if slow.fits(own, [*stages.elements(), one]):
            stages[one] += 1
    found = nodes_for(own, stages)
    least = next(
        number
        for number in range(len(sizes) + 1)
        if any(
            slow.fits(own, list(stages.elements()), within)
            for within in combinations(sizes, number)
        )
    )
    assert least <= found <= len(sizes)
    if len(stages) == 1 and max(stages) <= (max(sizes), 1):
        assert found == least


def test_a_plan_that_does_not_pack_is_told_so() -> None:
    eight = Strategy(dp=8, cp=1, tp=1)
    assert list(packing_findings(AFTER_A_LOSS, [eight] * 3)) == []
    (found,) = packing_findings(
        AFTER_A_LOSS,
        [eight, eight, eight, Strategy(dp=4, cp=1, tp=1), Strategy(dp=2, cp=2, tp=1)],
    )
    assert found == ("cluster 'a': stages take 32 devices, it has 31")
    five = Strategy(dp=5, cp=1, tp=1)
    (found,) = packing_findings(cluster(8, 8), [five] * 3)
    assert found == (
        "cluster 'a': its nodes (2 of 8 devices) cannot hold stages: 3 of 5 devices"
    )
