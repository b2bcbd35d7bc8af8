"""A plan keeps exactly the principles that its result does not call relaxed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.base.deadline import Deadline
from hetopt.check import check_plan, check_result
from hetopt.errors import CheckError, InputError
from hetopt.problem.training.principles import PRUNED, RELAXABLE, Principles
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.check.plan.good import NARROW, STAGES, WIDE, one, stage
from tests.oracle import plain
from tests.oracle.instances import make_instance
from tests.schemas import ensure_fits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Stage
    from hetopt.problem.problem import Problem

FALLING = one(STAGES, 1, strategy=NARROW)
RISING = one(STAGES, 0, strategy=NARROW)
APART = [
    stage("a", 0, 3, WIDE, 5),
    stage("b", 3, 6, NARROW, 3),
    stage("a", 6, 8, WIDE, 1, last=True),
]
#: Apart, and tp rises from the first stage to the last.
APART_RISING = one(APART, 0, strategy=NARROW)
#: An instance with an optimum that breaks P4.
SEED = 6


def findings(stages: Sequence[Stage], relaxed: Sequence[str]) -> list[str]:
    problem = plain.problem()
    table = plain.table(problem, (WIDE, NARROW))
    plan = plain.plan(problem, table, stages)
    try:
        check_plan(problem, table, plan, Principles.relaxing(relaxed))
    except CheckError as error:
        return error.findings
    return []


@pytest.mark.parametrize(
    ("stages", "relaxed"),
    [
        (STAGES, ()),
        (STAGES, ("p3", "p4")),
        (FALLING, ("p4",)),
        (FALLING, ("p4-falling-tp",)),
        (RISING, ("p4",)),
        (APART, ("p3",)),
        (APART, ("p4-falling-tp", "p3")),
        (APART_RISING, ("p4", "p3")),
    ],
)
def test_what_is_relaxed_need_not_hold(
    stages: Sequence[Stage], relaxed: Sequence[str]
) -> None:
    assert findings(stages, relaxed) == []


@pytest.mark.parametrize(
    ("stages", "relaxed", "expected"),
    [
        (FALLING, (), "(2,1,2) none and (2,1,1) none, expected one (P4)"),
        (FALLING, ("p3",), "expected one (P4)"),
        (RISING, ("p4-falling-tp",), "tp rises from 1 on stage 0 to 2 on stage 1"),
        (APART, (), "cluster 'a': stages 0 and 2 are not consecutive (P3)"),
        (APART, ("p4",), "are not consecutive (P3)"),
        (APART_RISING, ("p3",), "expected one (P4)"),
        (APART_RISING, ("p3", "p4-falling-tp"), "tp rises from 1 on stage 0 to 2 on"),
    ],
)
def test_what_is_not_relaxed_must_hold(
    stages: Sequence[Stage], relaxed: Sequence[str], expected: str
) -> None:
    (finding,) = findings(stages, relaxed)
    assert expected in finding


def test_devices_of_unlike_stages_are_added_up() -> None:
    stages = [
        stage("a", 0, 2, WIDE, 3),
        stage("a", 2, 4, WIDE, 2),
        stage("a", 4, 8, NARROW, 1, last=True),
    ]
    (finding,) = findings(stages, ("p4",))
    assert "stages take 10 devices, it has 8" in finding


def solved() -> tuple[Problem, CostTable, dict[str, Any]]:
    instance = make_instance(SEED, widest=True)
    params = RaceParams(jobs=0, principles=Principles.relaxing(["p4"]))
    result = load("miqp-highs")(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=params,
            deadline=Deadline.after(60),
        )
    )
    return instance.problem, instance.table, json.loads(json.dumps(result.to_json()))


def test_a_result_says_what_it_relaxed() -> None:
    problem, table, data = solved()
    assert data["relaxed"] == ["p4"]
    ensure_fits(data, "result")
    assert check_result(problem, table, data) == []
    for claim in (["p3"], []):
        data["relaxed"] = claim
        (finding,) = check_result(problem, table, data)
        assert finding.endswith("expected one (P4)")
    del data["relaxed"]
    (finding,) = check_result(problem, table, data)
    assert finding.endswith("expected one (P4)")


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (["p2"], "relaxed: there is no 'p2', expected some of p3, p4"),
        (["p4", "p4-falling-tp"], "relaxed: p4 and p4-falling-tp exclude each"),
    ],
)
def test_what_no_result_can_relax(claim: object, message: str) -> None:
    problem, table, data = solved()
    data["relaxed"] = claim
    with pytest.raises(InputError, match=message):
        check_result(problem, table, data)


def test_principles_and_names() -> None:
    assert PRUNED.relaxed == ()
    assert Principles.relaxing([]) == PRUNED
    for name in RELAXABLE:
        assert Principles.relaxing([name]).relaxed == (name,)
    assert Principles.relaxing(["p4", "p3", "p3"]).relaxed == ("p3", "p4")
