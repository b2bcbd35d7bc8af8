"""Bounds on simulated times of relaxed plans end when their time is up."""

from __future__ import annotations

import pytest

from hetopt.base.deadline import Deadline
from hetopt.problem.reading import read_problem
from hetopt.problem.training.principles import Principles
from hetopt.solvers.bounds import wide
from tests.search.asking import request_of


def test_nothing_is_bounded_when_the_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Short work would end by itself, each time a little later."""
    problem = read_problem("hetauto-exp1")
    request = request_of(problem, principles=Principles.relaxing(["p3"]))
    begun: list[int] = []

    def late(_request: object, q: int, *_rest: object) -> list[float]:
        begun.append(q)
        raise AssertionError

    monkeypatch.setattr(wide, "bounds_s", late)
    least_s = {part.microbatches: 1.0 for part in request.table.slices}
    known = wide.least_simulated_s(request, least_s, 100.0, Deadline.after(0.0))
    assert known
    assert set(known.values()) == {1.0}
    assert not begun
