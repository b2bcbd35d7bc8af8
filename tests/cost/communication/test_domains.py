"""Fast domains of nodes: between a node and the network, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from hetopt.cost.boundaries.resharding import Side, boundary
from hetopt.cost.communication.collectives import (
    START_ACROSS_S,
    START_S,
    all_gather_s,
    all_to_all_s,
    group_link,
)
from hetopt.cost.pieces.dispatched import Dispatched
from hetopt.errors import InputError
from hetopt.planning.asked import Search
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.cluster.nearby import FastDomain
from hetopt.problem.division import part_of
from hetopt.problem.problem import Problem
from hetopt.problem.training.principles import Principles
from hetopt.whatif.reasons import questions
from tests.cost.making import link, make_cluster, make_links, make_problem

#: Rates that are reached, and the share of them that collectives reach inside nodes.
NODE, RACK, NIC, SHARE = 100e9, 80e9, 10e9, 0.58


def racks(nodes: int, per_domain: int | None) -> Cluster:
    """Nodes of 4 devices with an interface each."""
    domain = None
    if per_domain is not None:
        domain = FastDomain(nodes=per_domain, link=link(2e-6, RACK))
    return make_cluster(
        nodes=nodes,
        devices_per_node=4,
        max_tp=4,
        nics_per_node=4,
        intra_node=link(1e-6, NODE),
        inter_node=link(1e-5, NIC),
        domain=domain,
    )


def ring(cluster: Cluster, size: int, stride: int) -> tuple[float, float]:
    found = group_link(cluster, np.array([size]), np.array([stride]), np.array([4]))
    return float(found[0][0]), float(found[1][0])


def test_a_ring_inside_a_domain_has_its_link() -> None:
    cluster = racks(8, 4)
    assert ring(cluster, 4, 1) == (NODE * SHARE, 1e-6)
    assert ring(cluster, 4, 4) == pytest.approx((RACK * SHARE, 2e-6))
    assert ring(cluster, 16, 1) == pytest.approx((RACK * SHARE, 2e-6))
    # Three nodes do not divide four: some of these blocks are in two domains.
    assert ring(cluster, 12, 1)[1] > 2e-6
    assert ring(racks(3, 4), 12, 1) == pytest.approx((RACK * SHARE, 2e-6))


def test_a_domain_counts_as_a_large_node_for_what_leaves_it() -> None:
    cluster = racks(8, 4)
    # All sixteen interfaces of a domain, over the rings that leave it.
    for stride, rings in ((4, 4), (16, 16)):
        bandwidth, _ = ring(cluster, 32 // stride, stride)
        assert bandwidth == pytest.approx(min(16 * NIC * 0.9 / rings, RACK * SHARE))
    large = replace(
        racks(2, None),
        devices_per_node=16,
        nics_per_node=16,
        intra_node=link(2e-6, RACK),
    )
    for stride in (1, 4, 16):
        sizes = np.array([32 // stride]), np.array([stride])
        near = group_link(large, *sizes, np.array([16]))
        assert np.allclose(near, group_link(cluster, *sizes, np.array([4])))


def gathered(cluster: Cluster, size: int, stride: int) -> float:
    each = np.array([size]), np.array([stride]), np.array([4])
    return float(all_gather_s(cluster, *each, np.array([1e9]))[0])


def test_domains_gain_and_larger_ones_gain_more() -> None:
    for size, stride in product((2, 4, 8, 16, 32), (1, 2, 4, 8)):
        if size * stride > 32:
            continue
        times = [gathered(racks(8, n), size, stride) for n in (None, 2, 4, 8)]
        assert times == sorted(times, reverse=True)
    start = gathered(racks(8, 8), 32, 1) - 31 * (1e9 / 32 / (RACK * SHARE) + 2e-6)
    assert start == pytest.approx(START_S)
    assert START_ACROSS_S > START_S


@pytest.mark.parametrize("groups", [None, (4, 2)])
def test_tokens_are_sent_inside_a_domain(groups: tuple[int, int] | None) -> None:
    dispatched = Dispatched(
        token_bytes=np.array([2.5e8]),
        copies=4.0,
        groups=groups,
    )

    def seconds(cluster: Cluster, size: int) -> float:
        each = np.array([size]), np.array([1]), np.array([4])
        return float(all_to_all_s(cluster, *each, dispatched)[0])

    inside = 1e9 * 15 / 16 / (RACK * SHARE * 0.75) + 15 * 2e-6 + START_S
    assert seconds(racks(8, 4), 16) == pytest.approx(inside)
    for size in (4, 8, 16, 32):
        times = [seconds(racks(8, n), size) for n in (None, 2, 4, 8)]
        assert times == sorted(times, reverse=True)


def test_a_boundary_inside_the_only_domain_needs_no_network() -> None:
    def transfer(cluster: Cluster, dp: int) -> float:
        side = Side(cluster=cluster, dp=np.array([dp]), shards=np.array([4]))
        found = boundary(side, side, make_links(), 1e9, ("p2p",))
        return float(found.transfer_s[0])

    share = 1e9 / 8
    assert transfer(racks(4, 4), 2) == pytest.approx(2e-6 + share / (RACK * SHARE))
    # The next stage may be in the other domain.
    assert transfer(racks(8, 4), 2) == transfer(racks(8, None), 2)
    # The next stage may share the node, whose link is as slow as one likes.
    slow = replace(racks(4, 4), intra_node=link(1e-6, 1e9))
    assert transfer(slow, 1) > transfer(slow, 2) * 1.9


def problem_on(cluster: Cluster) -> Problem:
    return make_problem((cluster,))


def test_some_nodes_of_several_domains_gain_nothing() -> None:
    """Plans on fewer nodes take no less: bounds on all of them hold."""
    several = racks(8, 4).with_nodes(4)
    assert not several.one_domain
    assert gathered(several, 16, 1) == gathered(racks(8, 4), 16, 1)
    assert gathered(several, 12, 1) == gathered(racks(8, 4), 12, 1)
    assert racks(4, 8).with_nodes(2).one_domain


def test_parts_of_pipelines() -> None:
    def domain(cluster: Cluster, *parts: tuple[int, ...]) -> FastDomain | None:
        division = [{cluster.name: each} for each in parts]
        return part_of(problem_on(cluster), division, 0, 4).clusters[0].domain

    node, half = (4,), (2,)
    one = domain(racks(4, 4), half * 4, half * 4)
    assert one is not None
    assert one.nodes == 4
    # Where parts of several domains begin is not known.
    assert domain(racks(8, 4), node * 4, node * 4) is None
    assert domain(racks(8, 4), half * 4, node * 6) is None


def test_a_slow_domain_never_costs_more_than_none() -> None:
    """So costs of a part, which may have none, are no less than those of the whole."""
    dispatched = Dispatched(token_bytes=np.array([2.5e8]), copies=4.0, groups=None)
    for latency_s, rate in ((2e-6, 1e9), (1e-3, RACK), (1e-3, 1e9)):
        for nodes, per_domain in ((4, 4), (8, 4), (6, 4)):
            plain = racks(nodes, None)
            slow = FastDomain(nodes=per_domain, link=link(latency_s, rate))
            given = replace(plain, domain=slow)
            for size, stride in product((2, 4, 8, 12, 16), (1, 2, 4)):
                if size * stride > 4 * nodes:
                    continue
                assert gathered(given, size, stride) <= gathered(plain, size, stride)
                each = np.array([size]), np.array([stride]), np.array([4])
                assert (
                    all_to_all_s(given, *each, dispatched)
                    <= all_to_all_s(plain, *each, dispatched)
                ).all()


def test_stages_of_several_sizes_are_not_for_several_domains() -> None:
    problem = problem_on(racks(8, 4))
    with pytest.raises(InputError, match="give each domain a cluster of its own"):
        Search(problem=problem, principles=Principles(sharing="any"))
    Search(problem=problem_on(racks(4, 4)), principles=Principles(sharing="any"))


def test_one_more_node_joins_the_only_domain() -> None:
    uneven = replace(racks(3, 3), unequal=(4, 4, 2))
    problem = problem_on(uneven)
    one = Strategy(dp=1, cp=1, tp=1)
    stage = Stage(cluster="a", first_unit=0, end_unit=34, strategy=one, warmup=1)
    plan = Plan(
        schedule="1f1b",
        problem_digest="0" * 64,
        table_digest="0" * 64,
        pipelines=(Pipeline(microbatches=8, stages=(stage,)),),
    )
    (asked,) = (q for q in questions(problem, plan) if q.kind == "node")
    assert asked.variant.problem is not None
    (larger,) = asked.variant.problem.clusters
    assert larger.unequal == (4, 4, 2, 4)
    assert larger.one_domain
