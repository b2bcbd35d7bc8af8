"""The lines of a problem that timed collectives give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import yaml

from hetopt.cost.communication.collectives import all_reduce_s
from hetopt.problem.example import EXAMPLE
from hetopt.problem.reading import read_problem_text
from hetopt.profile.link_fits import (
    fit_lines,
    fit_link,
    problem_lines,
    start_s,
    steps,
    traffic_bytes,
)
from tests.profile.collective_rows import NAMES, row

if TYPE_CHECKING:
    from hetopt.profile.link_fits import CollectiveRow

SIZES = [4**power for power in range(6, 15)]
RINGS = NAMES[:3]


def timed(
    collective: str, ranks: int, nodes: int, latency_s: float, bytes_per_s: float
) -> list[CollectiveRow]:
    """Rows of a link that does what the model says."""
    return [
        row(
            collective,
            ranks,
            size,
            start_s(collective, nodes)
            + steps(collective, ranks) * latency_s
            + traffic_bytes(collective, ranks, size) / bytes_per_s,
        )
        for size in SIZES
    ]


@pytest.mark.parametrize("collective", NAMES)
@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("nodes", [1, 2])
def test_the_fit_finds_the_link(collective: str, ranks: int, nodes: int) -> None:
    rows = timed(collective, ranks, nodes, 5e-6, 20e9)
    fit = fit_link(rows, nodes)
    assert fit.latency_s == pytest.approx(5e-6)
    assert fit.bandwidth_bytes_per_s == pytest.approx(20e9)
    assert fit.mean_error == pytest.approx(0, abs=1e-9)
    (line,) = fit_lines(rows, nodes)
    assert line == (f"{collective}: latency 5 us, bandwidth 20 GB/s, mean error 0.0%")


def test_a_fit_is_never_negative() -> None:
    falling = [row("send-recv", 2, size, 1e-3 / size) for size in (1, 10, 100)]
    fit = fit_link(falling, 1)
    assert fit.latency_s > 0
    assert fit.bandwidth_bytes_per_s is None
    assert "bandwidth unknown" in fit_lines(falling, 1)[0]
    proportional = [row("send-recv", 2, size, size**1.1) for size in (1, 10, 100)]
    fit = fit_link(proportional, 1)
    assert fit.latency_s == 0
    assert fit.bandwidth_bytes_per_s is not None
    assert fit.bandwidth_bytes_per_s > 0
    assert fit_link(proportional[:1], 1).mean_error == pytest.approx(0)


def test_a_problem_with_the_lines_charges_what_was_measured() -> None:
    """In one node: rings reach a share of intra_node's bandwidth, and start late."""
    rows = [each for ring in RINGS for each in timed(ring, 8, 1, 4e-6, 174e9)]
    # A message between two devices says nothing about rings.
    rows += timed("send-recv", 8, 1, 1e-6, 20e9)
    (line,) = problem_lines(rows, 1, 0.58)
    assert line == (
        "intra_node: {bandwidth: 300 GB/s, latency: 4 us}  # of the cluster; priced "
        "at 58% of it, the measured 174 GB/s"
    )
    document = yaml.safe_load(EXAMPLE)
    document["clusters"][0] |= yaml.safe_load(line)
    (cluster, *_) = read_problem_text(yaml.safe_dump(document)).clusters
    assert cluster.name == "a100"
    assert cluster.accelerator.intra_node_share == 0.58
    one, eight = np.array([1]), np.array([8])
    for each in rows[: len(SIZES)]:
        assert each.collective == "all-reduce"
        priced = all_reduce_s(cluster, eight, one, eight, np.array([each.total_bytes]))
        assert priced[0] == pytest.approx(each.seconds, rel=1e-3)


def test_across_nodes_a_message_gives_the_interface_or_the_link() -> None:
    rows = timed("all-reduce", 16, 2, 9e-6, 100e9)
    rows += timed("send-recv", 2, 2, 12e-6, 22.5e9)
    inside, between = problem_lines(rows, 2, 0.58)
    stated = yaml.safe_load(inside)["inter_node"]
    # Nine tenths of an interface's bandwidth are priced, and all of a link's.
    assert stated == {"bandwidth": "25 GB/s", "latency": "12 us"}
    stated = yaml.safe_load(between)["links"]["default"]
    assert stated["per_connection"] == "22.5 GB/s"
    assert stated["latency"] == "12 us"
    # What all connections carry together was not measured.
    assert stated["bandwidth"] == "<of all connections together>"


def test_times_that_show_no_bandwidth_give_no_line() -> None:
    falling = [row("all-reduce", 8, size, 1 / size) for size in SIZES]
    assert problem_lines(falling, 1, 0.58) == []
    assert problem_lines(timed("send-recv", 2, 1, 1e-6, 1e9), 1, 0.58) == []
    assert problem_lines(timed("all-reduce", 2, 2, 1e-6, 1e9), 2, 0.58) == []
