"""Every claim of a result over all schedules, true and false."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import pytest

import hetopt
from hetopt.check import check_result
from hetopt.errors import InputError
from hetopt.planning.best_schedule import BestSchedule, best_schedule
from hetopt.planning.plan import search
from hetopt.problem.reading import read_problem_text
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.cli.conftest import SMALL

Forge = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def found() -> BestSchedule:
    problem = read_problem_text(SMALL)
    request = Request(
        problem=problem, table=hetopt.build_table(problem), params=RaceParams(jobs=0)
    )
    solve = partial(search, solver="dp", objective="closed")
    return best_schedule(request, solve, solver="dp")


def own(data: dict[str, Any]) -> dict[str, Any]:
    """Return the claim on the plan's schedule."""
    name = data["plan"]["schedule"]
    claim: dict[str, Any] = next(x for x in data["schedules"] if x["schedule"] == name)
    return claim


def other(data: dict[str, Any]) -> dict[str, Any]:
    """Return a claim on a schedule that was refuted."""
    claim: dict[str, Any] = next(
        x for x in data["schedules"] if x["status"] == "refuted"
    )
    return claim


def adaptive(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the claims on the schedule that has an epsilon."""
    return [x for x in data["schedules"] if x["schedule"] == "h-1f1b"]


def test_the_truth_passes(found: BestSchedule) -> None:
    data = found.result.to_json()
    assert check_result(found.problem, found.table, data) == []


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (lambda x: x["schedules"].pop(1), "is missing"),
        (lambda x: x["schedules"][-1].update(chunks=1), "has 1 chunk"),
        (
            lambda x: x["schedules"].append(other(x)),
            "_epsilon: None) is listed 2 times",
        ),
        (lambda x: adaptive(x)[1].update(warmup_epsilon=0.05), "is listed 2 times"),
        (lambda x: x["schedules"].remove(adaptive(x)[1]), "epsilon is not one value"),
        (lambda x: x["schedules"].remove(own(x)), "the plan's own, is missing"),
        (lambda x: other(x).update(lower_bound_s=1e-3), "settlements and schedules"),
        (lambda x: other(x).update(lower_bound_s=1e-3), "is refuted, but bounded by"),
        (lambda x: other(x).update(lower_bound_s=None), "some schedule has no bound"),
        (lambda x: other(x).update(objective_s=1e-3), "better than the reported"),
        (lambda x: other(x).update(status="passed-over"), "has a plan or a bound"),
        (lambda x: other(x).update(status="infeasible"), "has a plan or a bound"),
        (lambda x: other(x).update(status="optimal"), "is optimal, but has no plan"),
        (lambda x: own(x).update(status="refuted"), "but the plan belongs to it"),
        (lambda x: own(x).update(status="passed-over"), "but the plan belongs to it"),
        (lambda x: own(x).update(objective_s=9.0), "has a plan of 9.0, expected"),
        (lambda x: own(x).update(lower_bound_s=9.0), "is bounded by 9.0"),
        (lambda x: own(x).update(lower_bound_s=1e-3), "but bounded by 0.001"),
    ],
)
def test_a_false_claim_is_found(found: BestSchedule, forge: Forge, said: str) -> None:
    data = deepcopy(found.result.to_json())
    forge(data)
    findings = check_result(found.problem, found.table, data)
    assert any(said in line for line in findings), findings


def test_a_schedule_is_passed_over_for_a_reason(found: BestSchedule) -> None:
    data = deepcopy(found.result.to_json())
    other(data).update(status="passed-over", lower_bound_s=None)
    findings = check_result(found.problem, found.table, data)
    assert any("no reason is given" in line for line in findings)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schedule": "fastest"}, "schedules.0.schedule: is 'fastest', expected"),
        ({"status": "best"}, "schedules.0.status: is 'best', expected"),
        ({"lower_bound_s": "soon"}, "schedules.0.lower_bound_s: is 'soon', expected"),
        ({"reason": 3}, "schedules.0.reason: is 3, expected a string"),
    ],
)
def test_what_is_no_claim_is_named(
    found: BestSchedule, changes: dict[str, Any], said: str
) -> None:
    data = deepcopy(found.result.to_json())
    data["schedules"][0].update(changes)
    with pytest.raises(InputError) as wrong:
        check_result(found.problem, found.table, data)
    assert str(wrong.value).startswith(said)
