from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.resharding import (
    PAIRS,
    PROBLEM,
    STRATEGIES,
    fitted_message_s,
    spread,
    with_message,
)
from hetopt.problem.catalogue import problem_files
from hetopt.problem.cluster.links import ClusterLinks
from hetopt.problem.reading import read_problem


def test_fig_16_of_hetauto() -> None:
    problem = read_problem(str(problem_files()[PROBLEM]))
    link = problem.links.default
    assert link is not None
    assert link.message_s == pytest.approx(fitted_message_s(problem), rel=1e-3)
    assert len(PAIRS) == 20
    found = {name: spread(problem, name) for name in STRATEGIES}
    assert min(found, key=lambda name: found[name].mean) == "inner-dp"
    assert min(found, key=lambda name: found[name].deviation) == "leader"
    # Fitted, so it says nothing about the model.
    assert found["p2p"].most == pytest.approx(2107.84, rel=1e-3)


@pytest.mark.parametrize("gbps", [10, 40, 80])
def test_the_order_of_fig_16_says_nothing_about_the_rate_of_a_node(gbps: int) -> None:
    problem = read_problem(str(problem_files()[PROBLEM]))
    assert problem.links.default is not None
    link = replace(problem.links.default, node_bytes_per_s=gbps * 1e9 / 8)
    problem = replace(problem, links=ClusterLinks(default=link))
    fitted = with_message(problem, fitted_message_s(problem))
    found = {name: spread(fitted, name) for name in STRATEGIES}
    assert min(found, key=lambda name: found[name].mean) == "inner-dp"
    assert min(found, key=lambda name: found[name].deviation) == "leader"
