"""Every true claim passes, for every nesting, measure and end of a search."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.check import check_result
from hetopt.check.claims.front import check_front
from tests.check.claims.made import made, over_of

if TYPE_CHECKING:
    from hetopt.results.claims import Measure
    from hetopt.solvers.search.over import Over

NESTINGS = ("", "f", "s", "d", "l", "fs", "fd", "sd", "fl", "sl", "fsd", "fsl")


def findings(over: Over, *options: Any, **named: Any) -> list[str]:
    problem, table, data = made(over, *options, **named)
    read = json.loads(json.dumps(data))
    check = check_front if over.measure == "front" else check_result
    return check(problem, table, read)


@pytest.mark.parametrize("nesting", NESTINGS)
def test_of_least_time(nesting: str) -> None:
    over = over_of(nesting)
    assert findings(over) == []
    assert made(over)[2]["status"] == "optimal"


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("nesting", ["f", "s", "d", "fd"])
def test_of_least_simulated_time(nesting: str) -> None:
    assert findings(over_of(nesting), "simulated") == []


@pytest.mark.parametrize(
    ("nesting", "measure"),
    [
        *(("f", each) for each in ("cost", "front")),
        *(("fs", each) for each in ("cost", "front")),
        *(("fd", each) for each in ("cost", "front")),
        *(("fl", "cost"), ("fsl", "front"), ("fsd", "cost")),
    ],
)
def test_of_prices(nesting: str, measure: Measure) -> None:
    over = over_of(nesting, measure)
    assert findings(over) == []
    assert made(over)[2]["status"] == "optimal"


@pytest.mark.parametrize("nesting", NESTINGS)
def test_of_a_search_that_was_cut_off(nesting: str) -> None:
    limit_s = 1e-3
    assert findings(over_of(nesting), limit_s=limit_s) == []
    if "f" in nesting:
        assert findings(over_of(nesting, "cost"), limit_s=limit_s) == []
        assert findings(over_of(nesting, "front"), limit_s=limit_s) == []


@pytest.mark.parametrize("nesting", ["f", "s", "d", "fsl", "fd"])
def test_of_the_next_best_plans(nesting: str) -> None:
    over = over_of(nesting)
    assert findings(over, top=3) == []
    data = made(over, top=3)[2]
    assert data["alternatives"]


def test_of_a_budget() -> None:
    assert findings(over_of("fs", budget=7)) == []


def test_of_no_plan() -> None:
    over = over_of("fs", "cost", min_tokens_per_s=1e9)
    assert findings(over) == []
    assert made(over)[2]["status"] == "infeasible"
