"""What is lost and what joins: names of nodes and devices, and what they may not be."""

from __future__ import annotations

import pytest

from hetopt.errors import InputError
from hetopt.problem.reading import read_problem_text
from hetopt.replanning.nodes import changed

TEXT = """\
model: {layers: 4, hidden: 256, heads: 4, ffn: 1024, vocab: 1000}
clusters:
  - {name: a, accelerator: A100-40GB, nodes: [2, 3], hosts: [x, "y:1"],
     inter_node: {bandwidth: 100 Gbps}}
  - {name: b, accelerator: A100-40GB, nodes: 2, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps}}
links: {default: {bandwidth: 10 Gbps, latency: 1 ms}}
training: {global_batch: 4, seq_len: 1024}
"""


def left(lost: list[str], added: list[str] | None = None) -> list[tuple[str, int]]:
    """Return the nodes that are left, with how many devices each one has."""
    _, after = changed(read_problem_text(TEXT), lost, added or [])
    return [(node.host, len(node.devices)) for node in after]


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        (["a/0"], [("y:1", 3), ("b-node-1", 2), ("b-node-2", 2)]),
        (["x"], [("y:1", 3), ("b-node-1", 2), ("b-node-2", 2)]),
        (["y:1"], [("x", 2), ("b-node-1", 2), ("b-node-2", 2)]),
        (["a/y:1:0"], [("x", 2), ("y:1", 2), ("b-node-1", 2), ("b-node-2", 2)]),
        (["b"], [("x", 2), ("y:1", 3)]),
        (["b/1:0", "b-node-2:1", "a"], [("b-node-1", 2)]),
    ],
)
def test_what_is_left(lost: list[str], expected: list[tuple[str, int]]) -> None:
    assert left(lost) == expected


def test_devices_keep_their_numbers() -> None:
    _, after = changed(read_problem_text(TEXT), ["a/1:1"], [])
    assert after[1].devices == (0, 2)
    assert after[1].device(1).name == "y:1:2"


def test_a_node_joins_its_cluster() -> None:
    assert left([], ["a/z"])[2] == ("z", 3)
    assert left(["b"], ["b/z"])[2] == ("z", 2)


@pytest.mark.parametrize(
    ("lost", "added", "why"),
    [
        (["c/0"], [], "no such node"),
        (["a/2"], [], "no such node"),
        (["a/" + "9" * 5000], [], "no such node"),
        (["x:" + "9" * 5000], [], "no such node"),
        (["x:2"], [], "no device 2, expected one of 0, 1"),
        (["x:0", "a/0:0"], [], "no device 0, expected one of 1"),
        (["x", "a/0"], [], "lost already"),
        (["b:0"], [], "whole cluster"),
        (["a", "b"], [], "leaves no device"),
        ([], [], "nothing changes"),
        ([], ["z"], "CLUSTER/HOST"),
        ([], ["c/z"], "no cluster is named 'c'"),
        (["x"], ["a/x"], "exists or was lost"),
        ([], ["a/-"], "expected a host name"),
    ],
)
def test_what_cannot_be_meant(lost: list[str], added: list[str], why: str) -> None:
    with pytest.raises(InputError, match=why):
        left(lost, added)
