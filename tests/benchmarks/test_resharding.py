from __future__ import annotations

import pytest

from benchmarks.resharding import PAIRS, PROBLEM, STRATEGIES, fitted_message_s, spread
from hetopt.problem.catalogue import problem_files
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
