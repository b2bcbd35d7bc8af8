"""Hosts of clusters, given by a caller rather than a file."""

from dataclasses import replace

import pytest

from hetopt.problem.reading import read_problem_text

PROBLEM = read_problem_text(
    """\
model: {layers: 4, hidden: 64, heads: 4}
clusters:
  - {name: a, accelerator: A40, nodes: 2, devices_per_node: 8, hosts: [n1, n2],
     inter_node: {bandwidth: 100 Gbps}}
  - {name: b, accelerator: A40, nodes: 1, devices_per_node: 8,
     inter_node: {bandwidth: 100 Gbps}}
links: {default: {bandwidth: 10 Gbps, latency: 1 ms}}
training: {global_batch: 64, seq_len: 1024}
"""
)


def test_hosts_are_read_in_order_and_absent_ones_are_none() -> None:
    assert [cluster.hosts for cluster in PROBLEM.clusters] == [("n1", "n2"), None]


@pytest.mark.parametrize(
    ("hosts", "fault"),
    [
        (("n1",), "names 1, expected one host for each of the 2"),
        (("n1", "n1"), "a second time"),
        (("n1", ""), "expected a name"),
        (("n1", "-n2"), "expected a host name"),
        (("n1", "n2\n"), "cannot be printed"),
        (("n1", "clusters:"), "expected a host name"),
        (("n1", "$(n2)"), "expected a host name"),
        (("n1", "n2-"), "not ending with - or :"),
        (("n1", ".n2"), "beginning with a letter, a digit or _"),
        (("n1", "n" * 254), "up to 253 letters"),
    ],
)
def test_wrong_hosts(hosts: tuple[str, ...], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        replace(PROBLEM.clusters[0], hosts=hosts)


@pytest.mark.parametrize("host", ["_n2", "n2_", "n2.example.", "fe80::1", "n" * 253])
def test_hosts_may_be_what_the_message_says(host: str) -> None:
    assert replace(PROBLEM.clusters[0], hosts=("n1", host)).hosts == ("n1", host)


def test_a_host_of_two_clusters() -> None:
    first, second = PROBLEM.clusters
    with pytest.raises(ValueError, match="'n2' a second time, first in cluster 'a'"):
        replace(PROBLEM, clusters=(first, replace(second, hosts=("n2",))))
