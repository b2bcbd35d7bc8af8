from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.cost.correction import with_corrected_links
from hetopt.problem.calibration import Calibration
from hetopt.problem.cluster.nearby import DeviceGroup
from tests.cost.making import link, make_cluster, make_problem


def test_links_inside_nodes_and_networks_have_factors_of_their_own() -> None:
    group = DeviceGroup(size=4, link=link(1e-6, 4e11))
    plain = make_problem((make_cluster(group=group),))
    problem = replace(plain, calibration=Calibration(intra_node=0.5, bandwidth=0.8))
    (before,), (after,) = plain.clusters, with_corrected_links(problem).clusters
    assert after.group is not None
    for old, new, factor in (
        (before.intra_node, after.intra_node, 0.5),
        (group.link, after.group.link, 0.5),
        (before.inter_node, after.inter_node, 0.8),
    ):
        ratio = new.bandwidth_bytes_per_s / old.bandwidth_bytes_per_s
        assert ratio == pytest.approx(factor)
        assert new.latency_s == old.latency_s
    assert with_corrected_links(plain) is plain


def test_uplinks_are_networks() -> None:
    plain = make_problem((replace(make_cluster(), uplink_bytes_per_s=1e9),))
    problem = replace(plain, calibration=Calibration(bandwidth=0.5))
    (cluster,) = with_corrected_links(problem).clusters
    assert cluster.uplink_bytes_per_s == pytest.approx(0.5e9)
