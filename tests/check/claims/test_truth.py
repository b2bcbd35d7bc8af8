"""Every true claim passes, for every nesting, measure and end of a search."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.check import check_result
from hetopt.check.claims.front import check_front
from tests.check.claims.made import made, over_of

if TYPE_CHECKING:
    from hetopt.solvers.search.search import Over

NESTINGS = ("", "f", "s", "d", "l", "fs", "fd", "sd", "fl", "sl", "fsd", "fsl")


def findings(over: Over, *options: Any, **named: Any) -> list[str]:
    problem, table, data = made(over, *options, **named)
    read = json.loads(json.dumps(data))
    check = check_front if over.measure == "front" else check_result
    return check(problem, table, read)


@pytest.mark.parametrize("nesting", NESTINGS)
@pytest.mark.parametrize("objective", ["closed", "simulated"])
def test_of_least_time(nesting: str, objective: Any) -> None:
    limits = {"budget": 7} if "f" in nesting else {}
    over = over_of(nesting, **limits)
    assert findings(over, objective) == []
    data = made(over, objective)[2]
    assert data["status"] == "optimal" or objective == "simulated"


@pytest.mark.parametrize("nesting", [each for each in NESTINGS if "f" in each])
@pytest.mark.parametrize("measure", ["cost", "front"])
def test_of_prices(nesting: str, measure: Any) -> None:
    over = over_of(nesting, measure)
    assert findings(over) == []
    assert made(over)[2]["status"] == "optimal"


@pytest.mark.parametrize("nesting", NESTINGS)
@pytest.mark.parametrize("limit_s", [1e-3, 0.2])
def test_of_a_search_that_was_cut_off(nesting: str, limit_s: float) -> None:
    assert findings(over_of(nesting), limit_s=limit_s) == []
    if "f" in nesting:
        assert findings(over_of(nesting, "cost"), limit_s=limit_s) == []
        assert findings(over_of(nesting, "front"), limit_s=limit_s) == []


@pytest.mark.parametrize("nesting", NESTINGS)
def test_of_the_next_best_plans(nesting: str) -> None:
    over = over_of(nesting)
    assert findings(over, top=3) == []
    data = made(over, top=3)[2]
    assert data["alternatives"]


def test_of_no_plan() -> None:
    over = over_of("fs", "cost", min_tokens_per_s=1e9)
    assert findings(over) == []
    assert made(over)[2]["status"] == "infeasible"
