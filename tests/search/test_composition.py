"""Branchings in any company, against every plan of every problem that they lead to."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING

import pytest

from hetopt.check.claims.front import check_front
from hetopt.solvers.search.branchings.fleets import Fleets
from tests.search.asking import ensure_holds
from tests.search.composing import ROUNDING, Asked, Time, Truth, searched, truth_of

if TYPE_CHECKING:
    from hetopt.results.claims import Measure


def ensure_front(truth: Truth, asked: Asked) -> None:
    """Fail unless a search finds all plans that no other beats in time and price."""
    search = searched(truth.problem, asked)
    front = search.front()
    data = json.loads(json.dumps(front.to_json()))
    assert check_front(truth.problem, search.request.table, data) == []
    assert isinstance(search.root, Fleets)
    found = [(search.root.price_of(each), each.time_s) for each in search.root.best]
    expected = truth.front(asked)
    if asked.waits:
        return
    assert front.status == ("optimal" if expected else "infeasible")
    assert found == [pytest.approx(each, rel=ROUNDING) for each in expected]


def ensure_best(seed: int, asked: Asked) -> None:
    """Fail unless a search finds the best of all plans, with a bound that holds."""
    truth = truth_of(seed)
    if asked.measure == "front":
        ensure_front(truth, asked)
        return
    expected = truth.values(asked)
    search = searched(truth.problem, asked)
    result = search.run()
    ensure_holds(search.request, result)
    found = [each.value for each in search.root.best]
    if not expected:
        assert (result.status, result.best, found) == ("infeasible", None, [])
        return
    costs = asked.measure == "cost"
    bound = result.lower_cost if costs else result.lower_bound_s
    assert bound is not None
    scale = 1 / 3600 if costs else 1
    assert bound <= expected[0] * scale * (1 + ROUNDING)
    assert found[0] >= expected[0] * (1 - ROUNDING)
    if asked.waits:
        return
    assert result.status == "optimal"
    # Of each division one plan is listed, which need not be the cheapest.
    most = 1 if costs and asked.pipelines > 1 else asked.top
    assert found[:most] == pytest.approx(expected[:most], rel=ROUNDING)


MEASURES: tuple[Measure | None, ...] = (None, "time", "cost", "front")
TIMES: tuple[Time, ...] = ("closed", "simulated")
EVERY = [
    Asked(measure, schedules, pipelines, launcher, time, top)
    for measure, schedules, pipelines, launcher, time, top in product(
        MEASURES, (False, True), (1, 2), (False, True), TIMES, (1, 3)
    )
    if not (measure == "front" and top > 1)
]
#: Searches of one instance. The step has no factor in common with their number.
SEARCHES, STEP = 7, 37


@pytest.mark.quick_cases(1)
@pytest.mark.slow_seeds(16)
@pytest.mark.parametrize("seed", range(16))
def test_it_is_the_best_of_all_plans(seed: int) -> None:
    for number in range(SEARCHES * seed, SEARCHES * (seed + 1)):
        asked = EVERY[number * STEP % len(EVERY)]
        try:
            ensure_best(seed, asked)
        except Exception as error:
            error.add_note(str(asked))
            raise


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("measure", "schedules", "pipelines", "launcher"),
    [(None, True, 1, False), ("time", False, 1, False), (None, False, 2, False)],
)
def test_a_cutoff_does_not_make_a_problem_infeasible(
    measure: Measure | None, *, schedules: bool, pipelines: int, launcher: bool
) -> None:
    asked = Asked(measure, schedules, pipelines, launcher, "closed", 1)
    truth = truth_of(0)
    best_s = truth.values(asked)[0]
    without = searched(truth.problem, asked, 0.9 * best_s).run()
    assert (without.status, without.best) == ("unknown", None)
    assert without.reason == "no plan is within the cutoff"
    assert without.lower_bound_s is not None
    assert 0.9 * best_s <= without.lower_bound_s <= best_s
    within = searched(truth.problem, asked, 1.1 * best_s).run()
    assert within.status == "optimal"
