from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.cost.boundaries.places import EndStrategy, anywhere, searched_table
from hetopt.cost.build import build_table
from hetopt.cost.table.table import CostTable
from hetopt.cost.table.ticks import TOO_LONG_NS
from hetopt.plans.strategy import Strategy
from hetopt.problem.cluster.links import ClusterLink, ClusterLinks
from hetopt.problem.problem import Problem
from hetopt.problem.training.principles import PRUNED, Principles
from hetopt.problem.training.training import Training
from tests.cost.making import make_cluster, make_model, make_problem


def make_three(**uplinks: float) -> Problem:
    return make_problem(
        tuple(
            replace(make_cluster(name, nodes=1), uplink_bytes_per_s=uplinks.get(name))
            for name in ("a", "b", "c")
        ),
        make_model(layers=4),
        Training(global_batch=4, seq_len=1024),
    )


@pytest.fixture(scope="module")
def table() -> CostTable:
    return build_table(make_three(b=1e9))


def test_a_cluster_with_an_uplink_has_its_strategies_for_every_place(
    table: CostTable,
) -> None:
    searched = searched_table(table, PRUNED)
    for part, placed in zip(table.slices, searched.slices, strict=True):
        assert part.shared is not None
        assert placed.shared is None
        for j, (own, other) in enumerate(
            zip(part.clusters, placed.clusters, strict=True)
        ):
            times = 3 if j == 1 else 1
            assert len(other.strategies) == times * len(own.strategies)
            assert tuple(map(anywhere, other.strategies))[::times] == own.strategies
            assert len(set(other.strategies)) == len(other.strategies)


def test_boundaries_follow_the_place(table: CostTable) -> None:
    part = table.slices[0]
    placed = searched_table(table, PRUNED).slices[0]
    assert part.shared is not None
    both = 2 * int(part.shared.uplink_ns[1])
    a = int(placed.clusters[0].layout[0])
    middle, first, last = (int(x) for x in placed.clusters[1].layout[:3])
    old_a = int(part.clusters[0].layout[0])
    old_b = int(part.clusters[1].layout[0])
    kappa, omega = placed.transfer_ns[0], placed.occupancy_ns[0]
    into, out = part.transfer_ns[0, old_a, old_b], part.transfer_ns[0, old_b, old_a]
    assert kappa[a, middle] == kappa[a, last] == into
    assert kappa[middle, a] == kappa[first, a] == out
    assert kappa[a, first] == kappa[last, a] == TOO_LONG_NS
    assert omega[a, middle] == max(part.occupancy_ns[0, old_a, old_b], both)
    assert omega[a, last] == part.occupancy_ns[0, old_a, old_b]
    # Inside the cluster all stages have one place.
    inside = part.transfer_ns[0, old_b, old_b]
    assert kappa[middle, middle] == kappa[first, first] == kappa[last, last] == inside
    assert kappa[middle, first] == kappa[first, last] == TOO_LONG_NS


def test_where_it_cannot_say_it_the_table_is_without_sharing(table: CostTable) -> None:
    for searched in (
        searched_table(table, Principles.relaxing(["p3"])),
        searched_table(replace(table, schedule="free-1f1b"), PRUNED, simulated=True),
        searched_table(table, PRUNED, exact=False),
        searched_table(replace(table, schedule="gpipe"), PRUNED),
    ):
        for part, other in zip(table.slices, searched.slices, strict=True):
            assert other.shared is None
            assert other.layouts == part.layouts
            assert (other.transfer_ns == part.transfer_ns).all()


def test_searches_of_simulated_times_know_what_is_shared(table: CostTable) -> None:
    assert searched_table(table, PRUNED, simulated=True) is table


def test_a_table_that_shares_nothing_stays_as_it_is() -> None:
    links = ClusterLinks(default=ClusterLink(latency_s=1e-3))
    table = build_table(replace(make_three(), links=links))
    assert searched_table(table, PRUNED) is table


def test_strategies_are_ordered_whatever_their_place() -> None:
    plain = Strategy(dp=1, cp=1, tp=2)
    end = EndStrategy(dp=1, cp=1, tp=2, end="last")
    other = Strategy(dp=2, cp=1, tp=1)
    assert sorted([other, end, plain]) == [plain, end, other]
    assert end != plain
    assert anywhere(end) == plain
