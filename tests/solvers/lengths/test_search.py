"""Sequences of several lengths, against every plan there is, priced by the checker."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import hetopt
from hetopt.base.deadline import Deadline
from hetopt.check import check_result
from hetopt.cost.build import build_table
from hetopt.solvers.dividing import divisions
from hetopt.solvers.lengths.outcome import solve_lengths
from hetopt.solvers.lengths.search import LengthsSearch
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.agreement.lengths import drawn

if TYPE_CHECKING:
    from hetopt.solvers.dividing import Division
    from hetopt.solvers.progress import Progress

    #: Sequences of each length, the shortest first.
    Counts = tuple[int, ...]

#: Nodes of one cluster, or of two.
NODES = ([[2, 2]], [[1, 1]], [[2, 1]], [[1], [1]], [[2]], [[1], [2]])
QUICK, ALL = 4, 50
#: Seeds of problems whose shorter sequences no context parallelism divides.
ODD = range(ALL, ALL + 10)


def test_an_interruption_keeps_the_best_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = next(
        each for each in map(drawn, range(QUICK)) if len(divisions(each, 2)) > 1
    )
    whole = hetopt.plan(problem, pipelines=2)
    searched: list[object] = []
    search = LengthsSearch._search

    def interrupted(self: LengthsSearch, way: Division) -> float:
        if searched:
            raise KeyboardInterrupt
        searched.append(way)
        return search(self, way)

    monkeypatch.setattr(LengthsSearch, "_search", interrupted)
    told: list[Progress] = []
    request = Request(
        problem=problem,
        table=build_table(problem),
        params=RaceParams(on_progress=told.append),
    )
    result = solve_lengths(request, 2)
    assert result.interrupted
    assert not whole.interrupted
    assert (result.best is None) == (told[0].incumbent_s is None)
    assert [each.settled for each in told] == [1]
    if result.best is not None and whole.best is not None:
        assert result.best.closed_form_s >= whole.best.closed_form_s


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("seed", [*range(24), *ODD])
def test_device_time_bounds_every_plan_from_the_first_moment(seed: int) -> None:
    problem = drawn(seed, odd=seed in ODD)
    table = build_table(problem)
    least = []
    for most in (1, 2):
        request = Request(problem=problem, table=table, params=RaceParams())
        least.append(LengthsSearch(request, most).lower_bound())
        assert least[-1] > 0
    found = hetopt.plan(problem, pipelines=2, jobs=1)
    if found.best is not None:
        assert max(least) <= found.best.closed_form_s
    # After the deadline one pipeline is looked for, and nothing else.
    late = replace(request, deadline=Deadline.after(1e-9))
    stopped = solve_lengths(late, 2)
    if len(LengthsSearch(request, 2).ways) > 1:
        assert stopped.status in ("unknown", "feasible")
        assert stopped.lower_bound_s == least[1]
    alone = hetopt.plan(problem, jobs=1)
    assert (stopped.best is None) == (alone.best is None)
    assert check_result(problem, table, json.loads(json.dumps(stopped.to_json()))) == []


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "asked",
    [
        {"budget": 4, "objective": "simulated"},
        {"pipelines": 2, "relax": ["p4"]},
        {"objective": "cost", "relax": ["p3"], "schedule": "auto"},
        {"budget": 6, "pipelines": 2, "relax": ["p3", "p4-falling-tp"]},
    ],
    ids=str,
)
def test_what_is_not_searched_with_lengths_has_device_time(
    asked: dict[str, Any],
) -> None:
    """On some of the nodes and among pipelines, too; the checker agrees."""
    problem = next(each for each in map(drawn, range(QUICK)) if len(each.clusters) > 1)
    priced = tuple(
        replace(each, price_per_hour=each.devices) for each in problem.clusters
    )
    result = hetopt.plan(replace(problem, clusters=priced), jobs=1, **asked)
    assert result.status == "feasible"
    bound = result.lower_bound_s or result.lower_cost
    assert bound is not None
    assert bound > 0
