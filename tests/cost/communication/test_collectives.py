from __future__ import annotations

import numpy as np
import pytest

from hetopt.cost.communication.collectives import all_gather_s, all_reduce_s, group_link
from hetopt.problem.cluster import Cluster, DeviceGroup
from tests.cost.making import link, make_cluster

CLUSTER = make_cluster(
    intra_node=link(1e-6, 100e9), inter_node=link(1e-5, 10e9), nics_per_node=4
)


def bandwidth(cluster: Cluster, size: int, stride: int) -> float:
    return float(group_link(cluster, np.array([size]), np.array([stride]))[0][0])


def test_inside_a_node() -> None:
    assert bandwidth(CLUSTER, 8, 1) == pytest.approx(58e9)
    assert bandwidth(CLUSTER, 2, 4) == pytest.approx(58e9)
    seconds = all_gather_s(CLUSTER, np.array([8]), np.array([1]), np.array([8e9]))
    assert seconds[0] == pytest.approx(7 * (1e9 / 58e9 + 1e-6))


def test_rings_that_leave_a_node_share_its_interfaces() -> None:
    # One ring through all devices of a node drives all four interfaces.
    assert bandwidth(CLUSTER, 16, 1) == 36e9
    assert bandwidth(CLUSTER, 4, 4) == 9e9
    assert bandwidth(CLUSTER, 2, 8) == bandwidth(CLUSTER, 2, 16) == 4.5e9


def test_blocks_that_do_not_divide_a_node_straddle_two() -> None:
    twelve = make_cluster(devices_per_node=12, max_tp=12)
    within = bandwidth(twelve, 3, 2)
    assert bandwidth(twelve, 3, 3) < within


def test_device_groups_are_used_where_a_group_fits() -> None:
    pairs = make_cluster(
        group=DeviceGroup(size=2, link=link(1e-6, 500e9)),
        intra_node=link(1e-6, 100e9),
    )
    assert bandwidth(pairs, 2, 1) == pytest.approx(0.58 * 500e9)
    assert bandwidth(pairs, 2, 2) == pytest.approx(58e9)


def test_one_rank_has_nothing_to_send() -> None:
    one = np.array([1])
    assert all_reduce_s(CLUSTER, one, one, np.array([1e9]))[0] == 0


def test_all_reduce_is_two_passes_of_the_ring() -> None:
    seconds = all_reduce_s(CLUSTER, np.array([4]), np.array([1]), np.array([4e9]))
    assert seconds[0] == pytest.approx(2 * 3 / 4 * 4e9 / 58e9 + 6e-6)
