"""Ways to divide nodes among pipelines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.errors import InputError
from hetopt.problem.division import unlinked
from hetopt.problem.reading import read_problem_text
from hetopt.solvers.dividing import divisions

TEXT = """\
model: {layers: 4, hidden: 512, heads: 4, ffn: 2048, vocab: 1000}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: NODES, inter_node: {bandwidth: 100 Gbps}}
training: {global_batch: 8, seq_len: 1024}
"""


def ways(nodes: str, most: int, *, cuts: bool = True) -> list[list[tuple[int, ...]]]:
    problem = read_problem_text(TEXT.replace("NODES", nodes))
    return [
        [sizes for parts in way for _, sizes in parts]
        for way in divisions(problem, most, cuts=cuts)
    ]


def test_nodes_are_whole_or_halves() -> None:
    assert sorted(map(sorted, ways("[4, 4]", 2))) == [
        [(2,), (4, 2)],
        [(4,), (4,)],
    ]
    assert ways("[4, 4]", 2, cuts=False) == [[(4,), (4,)]]


def test_nodes_of_an_odd_number_of_devices_stay_whole() -> None:
    assert ways("[3, 3]", 2) == [[(3,), (3,)]]


def test_pipelines_are_not_told_apart() -> None:
    three = [way for way in ways("[1, 1, 1, 1]", 3) if len(way) == 3]
    assert three == [[(1, 1), (1,), (1,)]]


def test_too_many_are_refused() -> None:
    with pytest.raises(InputError, match="too many ways"):
        ways("40, devices_per_node: 2", 4)


def test_links_are_needed_only_between_clusters_that_pipelines_have_nodes_of() -> None:
    cluster = (
        "{{name: {}, accelerator: A40, nodes: 1, devices_per_node: 1,"
        " inter_node: {{bandwidth: 100 Gbps}}}}"
    )
    problem = read_problem_text(
        "model: {layers: 2, hidden: 512, heads: 4, ffn: 2048, vocab: 1000}\n"
        f"clusters: [{', '.join(map(cluster.format, 'abc'))}]\n"
        "links: {default: {bandwidth: 10 Gbps, latency: 1 ms}}\n"
        "training: {global_batch: 2, seq_len: 512}\n"
    )
    apart = replace(problem.links, pairs={frozenset("bc"): None})
    problem = replace(problem, links=apart)
    other: dict[str, tuple[int, ...]] = {"c": (1,)}
    assert list(unlinked(problem, [{"a": (1,), "b": ()}, other])) == []
    assert list(unlinked(problem, [{"a": (1,), "b": (1,)}, other])) == [("b", "c")]
