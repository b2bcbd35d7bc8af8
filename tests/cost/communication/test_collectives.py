from __future__ import annotations

import csv
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from hetopt import data
from hetopt.cost.communication.collectives import (
    START_ACROSS_S,
    START_S,
    all_gather_s,
    all_reduce_s,
    all_to_all_s,
    group_link,
)
from hetopt.cost.pieces.dispatched import Dispatched
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.cluster.nearby import DeviceGroup
from tests.cost.making import link, make_cluster

CLUSTER = make_cluster(
    intra_node=link(1e-6, 100e9), inter_node=link(1e-5, 10e9), nics_per_node=4
)

#: What a stage of whole nodes has in each.
NODE = np.array([8])


def bandwidth(cluster: Cluster, size: int, stride: int) -> float:
    per_node = np.array([cluster.devices_per_node])
    return float(
        group_link(cluster, np.array([size]), np.array([stride]), per_node)[0][0]
    )


def test_inside_a_node() -> None:
    assert bandwidth(CLUSTER, 8, 1) == pytest.approx(58e9)
    assert bandwidth(CLUSTER, 2, 4) == pytest.approx(58e9)
    seconds = all_gather_s(CLUSTER, np.array([8]), np.array([1]), NODE, np.array([8e9]))
    assert seconds[0] == pytest.approx(START_S + 7 * (1e9 / 58e9 + 1e-6))


def test_rings_that_leave_a_node_share_its_interfaces() -> None:
    # One ring through all devices of a node drives all four interfaces.
    assert bandwidth(CLUSTER, 16, 1) == 36e9
    assert bandwidth(CLUSTER, 4, 4) == 9e9
    assert bandwidth(CLUSTER, 2, 8) == bandwidth(CLUSTER, 2, 16) == 4.5e9


def test_blocks_that_do_not_divide_a_node_straddle_two() -> None:
    twelve = make_cluster(devices_per_node=12, max_tp=12)
    within = bandwidth(twelve, 3, 2)
    assert bandwidth(twelve, 3, 3) < within


def test_a_stage_of_part_of_a_node_stays_inside() -> None:
    """Six of eight devices: no block of six divides a node, but none leaves it."""
    six = np.array([6])
    found = all_gather_s(CLUSTER, six, np.array([1]), six, np.array([6e9]))
    assert found[0] == pytest.approx(START_S + 5 * (1e9 / 58e9 + 1e-6))


def test_a_stage_of_seven_in_each_of_two_nodes() -> None:
    seven = np.array([7])
    _, inside = group_link(CLUSTER, seven, np.array([1]), seven)
    _, across = group_link(CLUSTER, np.array([14]), np.array([1]), seven)
    assert inside[0] == 1e-6
    assert across[0] == pytest.approx((6 * 1e-6 + 1e-5) / 7)


def test_device_groups_are_used_where_a_group_fits() -> None:
    pairs = make_cluster(
        group=DeviceGroup(size=2, link=link(1e-6, 500e9)),
        intra_node=link(1e-6, 100e9),
    )
    assert bandwidth(pairs, 2, 1) == pytest.approx(0.58 * 500e9)
    assert bandwidth(pairs, 2, 2) == pytest.approx(58e9)


def test_one_rank_has_nothing_to_send() -> None:
    one = np.array([1])
    assert all_reduce_s(CLUSTER, one, one, NODE, np.array([1e9]))[0] == 0


def test_all_reduce_is_two_passes_of_the_ring() -> None:
    seconds = all_reduce_s(CLUSTER, np.array([4]), np.array([1]), NODE, np.array([4e9]))
    assert seconds[0] == pytest.approx(2 * 3 / 4 * 4e9 / 58e9 + 6e-6 + START_S)


def test_a_ring_pays_each_hop_once_and_few_of_them_leave_a_node() -> None:
    # 16 ranks on two nodes: of 8 hops from a node's devices one leaves it.
    seconds = all_gather_s(
        CLUSTER, np.array([16]), np.array([1]), NODE, np.array([0.0])
    )
    hop = (7 * 1e-6 + 1e-5) / 8
    assert seconds[0] == pytest.approx(START_ACROSS_S + 15 * hop)


def test_small_collectives_cost_what_was_measured() -> None:
    """All-reduces of at most 200 kB on one node; data/collectives/vidur.csv."""
    rows = Path(data.__file__).parent.joinpath("collectives/vidur.csv").read_text()
    lines = (line for line in rows.splitlines() if not line.startswith("#"))
    measured: dict[tuple[str, int], list[float]] = {}
    for row in csv.DictReader(lines):
        small = int(row["bytes"]) <= 200_000 and row["op"] == "all_reduce"
        ranks = int(row["workers"])
        if small and ranks == int(row["devices_per_node"]) and "dgx" in row["network"]:
            seconds = float(row["median_ms"]) * 1e-3
            measured.setdefault((row["network"], ranks), []).append(seconds)
    assert len(measured) == 6
    for (network, ranks), times in measured.items():
        device = "H100" if network.startswith("h100") else "A100-80GB"
        ours = all_reduce_s(
            make_cluster(accelerator=device),
            np.array([ranks]),
            np.array([1]),
            np.array([ranks]),
            np.array([100e3]),
        )
        assert 0.4 < ours[0] / median(times) < 2.5


def all_to_all(
    size: int,
    stride: int = 1,
    groups: tuple[int, int] | None = None,
    cluster: Cluster = CLUSTER,
    load: float = 1.0,
) -> float:
    """Dispatch 6 copies of tokens of 1 GB, times the load."""
    sent = Dispatched(
        token_bytes=np.array([1e9]), copies=6 * load, load=load, groups=groups
    )
    ranks = np.array([size]), np.array([stride]), np.array([cluster.devices_per_node])
    return float(all_to_all_s(cluster, *ranks, sent)[0])


def test_an_all_to_all_inside_a_node_keeps_its_own_share() -> None:
    # 0.75 of the 58 GB/s of rings; a message to each of the others.
    expected = START_S + 6e9 * 7 / 8 / (0.75 * 58e9) + 7e-6
    assert all_to_all(8) == pytest.approx(expected)
    assert all_to_all(4, 2) == pytest.approx(START_S + 6e9 * 3 / 4 / 43.5e9 + 3e-6)
    assert all_to_all(1) == 0


def test_what_leaves_a_node_shares_its_interfaces() -> None:
    # Four interfaces of 10 GB/s, nine tenths of it, for eight devices.
    outer, inner = 4.5e9, 43.5e9
    expected = 6e9 / 16 * (7 / inner + 8 / outer) + 7e-6 + 8e-5
    assert all_to_all(16) == pytest.approx(START_ACROSS_S + expected)
    # Of a group with every eighth rank, each member is in a node of its own.
    alone = 6e9 / 2 / outer + 1e-5
    assert all_to_all(2, 8) == pytest.approx(START_ACROSS_S + alone)


def test_a_token_goes_to_a_node_once() -> None:
    # Four nodes: at most three copies of a token, of which a quarter stays.
    moved = 1e9 * 3 * 3 / 4 / 4.5e9 + 6e9 * 7 / 8 / 43.5e9
    expected = START_ACROSS_S + moved + 7e-6 + 3e-5
    assert all_to_all(32, groups=(8, 3)) == pytest.approx(expected)
    assert all_to_all(32, groups=(8, 8)) > all_to_all(32, groups=(8, 3))
    assert all_to_all(32) > all_to_all(32, groups=(8, 8))


def test_a_node_whose_experts_are_chosen_more_gets_more_tokens() -> None:
    # Of eight nodes' three, and of four nodes all: no token goes to a node twice.
    for nodes, reached in ((16, 6), (8, 6), (4, 4)):
        sent = 1e9 * reached * (1 - 1 / nodes) / 4.5e9 + 12e9 * 7 / 8 / 43.5e9
        expected = START_ACROSS_S + sent + 7e-6 + (nodes - 1) * 1e-5
        found = all_to_all(8 * nodes, groups=(8 * nodes, 3), load=2.0)
        assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("nodes", "groups", "chosen", "reached"),
    [
        (4, 4, 2, 2),
        # A group on two nodes; on half of one; none lies wholly on any.
        (8, 4, 2, 4),
        (4, 8, 2, 2),
        (6, 4, 2, 4),
        # At most six copies, and no more nodes than there are.
        (16, 4, 2, 6),
        (4, 2, 2, 4),
        # Every expert a group.
        (4, 32, 3, 3),
    ],
)
def test_a_group_of_experts_may_lie_on_several_nodes(
    nodes: int, groups: int, chosen: int, reached: int
) -> None:
    moved = 1e9 * reached * (1 - 1 / nodes) / 4.5e9 + 6e9 * 7 / 8 / 43.5e9
    waits = START_ACROSS_S + 7e-6 + (nodes - 1) * 1e-5
    found = all_to_all(8 * nodes, groups=(groups, chosen))
    assert found == pytest.approx(moved + waits)
    # Counted one expert after the other.
    own = [
        {i * nodes // 96 for i in range(g * 96 // groups, (g + 1) * 96 // groups)}
        for g in range(groups)
    ]
    assert reached == min(chosen * max(map(len, own)), 6, nodes)


def test_all_to_alls_on_b200_are_those_that_were_fitted() -> None:
    path = Path(data.__file__).parent / "collectives" / "simumax-b200.csv"
    lines = [
        line
        for line in path.read_text("utf-8").splitlines()
        if not line.startswith("#")
    ]
    (fit,) = (
        row
        for row in csv.DictReader(lines)
        if (row["network"], row["op"]) == ("high_intra_node", "all2all")
    )
    share = float(fit["efficient_factor"]) * float(fit["bandwidth_gbps"]) * 1e9
    node = make_cluster(accelerator="B200")
    theirs = 6e9 * 7 / 8 / share + float(fit["latency_us"]) * 1e-6
    assert all_to_all(8, cluster=node) == pytest.approx(theirs, rel=0.02)
