"""Gradients of the embedding's table, of which the last stage may have a copy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.check import check_plan
from hetopt.cost.build import build_table
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import CheckError
from hetopt.planning.plan import plan
from hetopt.problem.digest import problem_digest
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text
from hetopt.solvers.lengths.options import _orders

PROBLEM = """\
model: {layers: 4, hidden: 1024, heads: 8, ffn: 2048, vocab: 129280, MORE}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 4,
     inter_node: {bandwidth: 100 Gbps}}
  - {name: b, accelerator: A100-80GB, nodes: 1, devices_per_node: 4,
     inter_node: {bandwidth: 100 Gbps}}
  - {name: c, accelerator: A100-80GB, nodes: 1, devices_per_node: 4,
     inter_node: {bandwidth: 100 Gbps}}
links:
  default: {bandwidth: 10 Gbps, latency: 1 ms}
  pairs: [{between: [a, c], bandwidth: BETWEEN}]
training: {global_batch: 8, seq_len: 512, zero: 1}
pin: {stages: 3, microbatches: 2, order: [a, b, c]}
"""


def problem(more: str, between: str = "10 Gbps") -> Problem:
    return read_problem_text(PROBLEM.replace("MORE", more).replace("BETWEEN", between))


@pytest.mark.parametrize("more", ["tied: true", "predictions: 1", "tied: false"])
def test_copies_are_added_up(more: str) -> None:
    tied = build_table(problem(more)).at(2).tied_ns
    if more == "tied: false":
        assert tied is None
        return
    expected = build_table(problem("tied: true")).at(2).tied_ns
    assert tied is not None
    assert expected is not None
    assert tied.max() == expected.max() > 0.4e9


@pytest.mark.parametrize("more", ["tied: true", "predictions: 1", "tied: false"])
def test_copies_need_a_link(more: str) -> None:
    apart = problem(more, "none")
    orders = {tuple(order) for order in _orders(apart)}
    assert ((0, 1, 2) in orders) == (more == "tied: false")
    result = plan(apart, solver="dp", jobs=1)
    linked = plan(problem(more), solver="dp", jobs=1)
    assert linked.best is not None
    if more == "tied: false":
        assert result.best is not None
        return
    assert result.status == "infeasible"
    table = build_table(apart)
    crossing = replace(
        linked.best.plan,
        problem_digest=problem_digest(apart),
        table_digest=table_digest(table),
    )
    with pytest.raises(CheckError, match="which hold copies of the embedding's table"):
        check_plan(apart, table, crossing)
