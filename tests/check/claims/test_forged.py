"""A false claim is found, of every kind, in every nesting."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.check import check_result
from hetopt.check.claims.front import check_front
from hetopt.errors import InputError
from tests.check.claims.made import made, over_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hetopt.results.claims import Measure
    from hetopt.results.result import Objective

    Json = dict[str, Any]
    Forge = Callable[[Json], object]


def findings(data: Json, problem: Any, table: Any) -> str:
    check = check_front if "points" in data else check_result
    return "; ".join(check(problem, table, data))


def leaves(node: Json) -> Iterator[Json]:
    """Yield the claims of a tree that are bounds, from the first on."""
    if "bound_s" in node:
        yield node
    for child in (*node.get("children", ()), *node.get("parts", ())):
        yield from leaves(child)


def children(data: Json, *path: int) -> list[Json]:
    """Return the children of a node of the tree, by numbers from the root down."""
    node = data["claims"]
    for number in path:
        node = node["children"][number]
    found: list[Json] = node["children"]
    return found


def every(data: Json, **changes: Any) -> None:
    """Change all bounds of the tree."""
    for leaf in leaves(data["claims"]):
        leaf.update(changes)


def none(*path: int) -> Forge:
    """Return a forgery that leaves out all children of a node."""
    return lambda data: children(data, *path).clear()


def change(name: str, of: int = 0, /, **changes: Any) -> Forge:
    """Return a forgery of what was asked of a branching; ``of`` is its number."""
    return lambda data: data["over"][of][name].update(changes)


def child(*path: int, **changes: Any) -> Forge:
    """Return a forgery of one claim, given by numbers from the root down."""
    *first, last = path
    return lambda data: children(data, *first)[last].update(changes)


def top(**changes: Any) -> Forge:
    """Return a forgery of the result itself."""
    return lambda data: data.update(changes)


def again(*path: int) -> Forge:
    """Return a forgery that lists the first child of a node twice."""
    return lambda data: children(data, *path).append(children(data, *path)[0])


def variant(data: Json, number: int) -> Json:
    found: Json = data["over"][0]["schedules"][number]
    return found


def dropped(number: int) -> Forge:
    return lambda data: data["over"][0]["schedules"].pop(number)


def passed(number: int) -> Forge:
    """Return a forgery that passes over a schedule that counts."""

    def forge(data: Json) -> None:
        own = children(data)[number]
        children(data)[number] = {"at": own["at"], "passed_over": "it is slow"}
        data["claims"]["of"] -= 1

    return forge


def slower(data: Json) -> None:
    """Say that a longer time was allowed than the plan takes."""
    data["over"][0]["fleets"]["min_tokens_per_s"] = 1e9


TIME: Measure = "time"
COST: Measure = "cost"
FRONT: Measure = "front"

#: That a program has no plan.
SETTLED = {"stages": 1, "microbatches": 1, "how": "infeasible", "bound_s": None}
FORGED: list[tuple[str, Measure, Forge, str]] = [
    # Nodes to rent.
    ("f", COST, change("fleets", budget=0.5), "fleets.budget: the plan costs"),
    ("f", COST, slower, "fleets.min_tokens_per_s: the plan takes"),
    ("f", COST, none(), "lower_cost: .*, the fleets prove only"),
    ("f", TIME, none(), "lower_bound_s: .*, the fleets prove only"),
    ("f", TIME, partial(every, bound_s=1.0), "own nodes are said to take at least 1"),
    (
        "f",
        TIME,
        partial(every, bound_s=None),
        "own nodes are said to .* inf s",
    ),
    ("f", COST, child(0, bound_s=1.0), "is bounded by 1.0, has a plan of"),
    ("f", COST, child(0, bound_s=1e-3), "the fleets prove only"),
    ("f", COST, again(), "claims.children.5: is listed twice"),
    ("f", COST, top(lower_cost=1.0), "lower_cost: 1.0, more than the plan's"),
    ("f", COST, top(gap=0.25), "gap: 0.25, expected"),
    ("f", COST, top(lower_bound_s=1e-6), "1e-06, but cost is minimised"),
    ("f", COST, top(objective="closed"), "measure: cost, but objective: closed"),
    ("f", TIME, top(lower_cost=1e-6), "lower_cost: 1e-06, but time is minimised"),
    ("f", TIME, top(objective="cost"), "measure: time, but objective: cost"),
    ("f", TIME, child(0, best_s=1e-4), "better than the reported"),
    ("f", TIME, lambda x: x["claims"].update(of=7), "claims.of: 7, expected 5"),
    ("f", TIME, change("fleets", budget=1), "is no fleet in the budget"),
    ("f", FRONT, lambda x: x["points"].pop(0), "of nodes may hold a better plan"),
    ("f", FRONT, none(), "of nodes may hold a better plan"),
    ("f", FRONT, lambda x: x["points"].reverse(), "a higher price and a shorter time"),
    ("f", FRONT, partial(every, bound_s=1.0), "points.0: claims: the plan takes"),
    ("f", FRONT, top(open=3), "status: optimal, but open: 3"),
    ("f", FRONT, change("fleets", budget=0.5), "points.0: over.fleets.budget"),
    ("f", FRONT, lambda x: x["points"][0]["cost"].update(per_hour=9), "cost.per_hour"),
    ("f", FRONT, lambda x: x["points"][0].update(closed_form_s=9), "0.closed_form_s"),
    # Schedules.
    ("s", TIME, dropped(0), "over.schedules: 1f1b .*, the plan's own, is missing"),
    ("s", TIME, dropped(1), "gpipe .* is not one of over.schedules"),
    (
        "s",
        TIME,
        lambda x: variant(x, 2).update(chunks=1),
        "interleaved-.* has 1 chunk",
    ),
    (
        "s",
        TIME,
        lambda x: x["over"][0]["schedules"].append(variant(x, 0)),
        "is listed 2 times, expected once",
    ),
    (
        "s",
        TIME,
        lambda x: x["over"][0]["schedules"].extend(
            {"schedule": "h-1f1b", "chunks": 1, "warmup_epsilon": each}
            for each in (0.05, 0.1)
        ),
        "warmup_epsilon is not one value, nor 0.05, 0.1, 0.01",
    ),
    ("s", TIME, again(), "1f1b .* is listed twice"),
    ("s", TIME, passed(1), "gpipe .* is passed over, but is possible"),
    ("s", TIME, passed(0), "own schedule is said to take at least inf"),
    ("s", TIME, child(3, passed_over=""), "passed over, but no reason is given"),
    ("s", TIME, child(1, bound_s=1e-3), "the settlements and schedules prove only"),
    ("s", TIME, child(0, bound_s=9.0), "own schedule is said to take at least 9.0"),
    ("s", TIME, child(0, bound_s=1e-3), "lower_bound_s: .*, the schedules prove only"),
    ("s", TIME, child(1, best_s=1e-3), "has a plan of 0.001, better than the reported"),
    ("s", TIME, child(0, bound_s=9.0), "is bounded by 9.0, has a plan of"),
    ("s", TIME, lambda x: children(x).pop(2), "the schedules prove only"),
    ("s", TIME, lambda x: x["claims"].update(of=4), "claims.of: 4, expected 3"),
    ("s", TIME, child(1, by="divisions"), "claims.children.1.by: has no meaning here"),
    ("s", TIME, top(settlements=[], settled={}), "belongs to .*, which is missing"),
    # Pipelines side by side.
    ("d", TIME, top(lower_bound_s=1.0), "more than the plan's"),
    ("d", TIME, top(gap=0.25), "gap: 0.25"),
    ("d", TIME, lambda x: x["claims"].update(of=3), "claims.of: 3, expected 7"),
    ("d", TIME, none(), "the divisions prove only"),
    ("d", TIME, child(1, parts=[]), "the divisions prove only"),
    ("d", TIME, child(0, bound_s=1e-3), "the divisions prove only"),
    ("d", TIME, child(0, bound_s=9.0), "own division is said to take at least 9.0"),
    ("d", TIME, child(1, at=[{"b": [2]}]), "is no division of the nodes"),
    ("d", TIME, child(1, best_s=1e-3), "has a plan of 0.001, better than"),
    ("d", TIME, again(), "is listed twice among pipelines"),
    (
        "d",
        TIME,
        lambda x: children(x)[1]["parts"][0].update(pipeline=2),
        "is no pipeline of a division",
    ),
    (
        "d",
        TIME,
        lambda x: children(x)[1]["parts"][0].update(batch=4),
        "is no pipeline of a division",
    ),
    (
        "d",
        TIME,
        lambda x: children(x)[1]["parts"][0].update(best_s=1e-3),
        "is bounded by .*, has a plan of 0.001",
    ),
    ("d", TIME, change("divisions", most=1), "claims.of: 7, expected 1"),
    # Launchers: their word is taken, but not for more than is asked.
    ("l", TIME, lambda x: x["claims"].update(bound_s=1e-3), "the claims prove only"),
    ("l", TIME, lambda x: x["claims"].update(bound_s=9.0), "own launcher is said to"),
    ("sl", TIME, passed(0), "own schedule is said to take at least inf"),
    ("s", TIME, lambda x: x["claims"].update(best_s=9.0), "has a plan of 9.0, not"),
    (
        "fs",
        TIME,
        lambda x: [each.update(best_s=9.0) for each in children(x)],
        "but none of its children has",
    ),
    # One inside the other.
    ("fs", TIME, none(-1), "the fleets prove only"),
    ("fs", TIME, child(0, 0, bound_s=None), "has a plan of"),
    ("fs", COST, child(0, 0, bound_s=1e-3), "lower_cost: .*, the fleets prove only"),
    (
        "fs",
        COST,
        partial(every, bound_s=9.0),
        "own nodes are said to take .* 9.0",
    ),
    ("fs", FRONT, again(1), "1f1b .* is listed twice"),
    ("fd", COST, none(0), "lower_cost: .*, the fleets prove only"),
    ("fd", FRONT, none(1), "of nodes may hold a better plan"),
    ("sd", TIME, none(1), "the schedules prove only"),
    ("sd", TIME, child(0, 0, bound_s=9.0), "own schedule is said to take at least 9.0"),
    (
        "sd",
        TIME,
        top(settlements=[SETTLED], settled={"infeasible": 1}),
        "settlements: not allowed in a result over divisions",
    ),
    ("sd", TIME, child(2, of=9), "claims.children.2.of: 9, expected 7"),
    ("fsd", TIME, none(0, 0), "the fleets prove only"),
    ("fsd", TIME, child(0, 0, of=9), "claims.children.0.children.0.of: 9, expected"),
    (
        "fsd",
        COST,
        partial(every, bound_s=9.0),
        "own nodes are said to take .* 9.0",
    ),
]


@pytest.mark.parametrize(("nesting", "measure", "forge", "said"), FORGED)
def test_a_false_claim_is_found(
    nesting: str, measure: Measure, forge: Forge, said: str
) -> None:
    problem, table, data = made(over_of(nesting, measure))
    assert findings(data, problem, table) == ""
    forge(data)
    found = findings(data, problem, table)
    assert re.search(said, found), found


@pytest.mark.parametrize("nesting", ["f", "s", "d", "fs", "fd", "sd", "fl", "fsd"])
@pytest.mark.parametrize("measure", [TIME, COST])
def test_a_bound_that_is_a_little_higher_does_not_follow(
    nesting: str, measure: Measure
) -> None:
    if measure == COST and "f" not in nesting:
        pytest.skip("has no prices")
    problem, table, data = made(over_of(nesting, measure), limit_s=1e-3)
    key = "lower_cost" if measure == COST else "lower_bound_s"
    value = data[key] / (1 - data["gap"])
    data[key] *= 1.001
    data["gap"] = 1 - data[key] / value
    assert "prove only" in findings(data, problem, table)


@pytest.mark.parametrize("nesting", ["d", "fd"])
def test_bounds_above_a_plan_of_two_pipelines(nesting: str) -> None:
    """They leave the sums as they were."""
    problem, table, data = made(over_of(nesting), shared=True)
    assert [x["share"]["batch"] for x in data["plan"]["pipelines"]] == [6, 2]
    every(data, bound_s=100.0)
    own = "nodes are" if nesting == "fd" else "division is"
    said = findings(data, problem, table)
    assert f"the plan takes 0.15147072 s, its own {own} said to take at least" in said
    assert "lower_bound_s" not in said


def test_a_bound_on_more_nodes_is_none_if_they_are_divided() -> None:
    """A division takes all nodes of a fleet, so that one of fewer may be quicker."""
    problem, table, data = made(over_of("fd", "cost"), shared=True)
    children(data)[:] = [x for x in children(data) if x["at"] == {"a": 3}]
    assert "lower_cost: " in findings(data, problem, table)
    problem, table, data = made(over_of("f", budget=5), shared=True)
    assert len(children(data)) == 1
    assert findings(data, problem, table) == ""


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (lambda x: x[0].update(closed_form_s=9.0), "0.closed_form_s: 9.0, expected"),
        (lambda x: x.append(x[0]), "alternatives.2: differs from another plan in its"),
        (lambda x: x.reverse(), "alternatives.1: better than the plan before it"),
    ],
)
@pytest.mark.parametrize("nesting", ["fs", "s"])
def test_of_the_next_best_plans(nesting: str, forge: Any, said: str) -> None:
    over = over_of(nesting, "cost") if "f" in nesting else over_of(nesting)
    problem, table, data = made(over, shared=True, top=3)
    plans = [data, *data["alternatives"]]
    assert len({each["plan"]["schedule"] for each in plans}) > 1
    assert findings(data, problem, table) == ""
    forge(data["alternatives"])
    assert said in findings(data, problem, table)


@pytest.mark.parametrize("objective", ["closed", "simulated"])
@pytest.mark.parametrize("nesting", ["", "s", "l", "sl"])
def test_plans_that_are_asked_for_are_not_left_out(
    nesting: str, objective: Objective
) -> None:
    problem, table, data = made(over_of(nesting), objective, shared=True, top=3)
    data["asked"] = {"top": 3}
    assert findings(data, problem, table) == ""
    for number in range(2):
        left = [data["alternatives"][number]]
        said = findings({**data, "alternatives": left}, problem, table)
        assert "alternatives: 1 fewer than asked.top says, but (" in said


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("objective", ["closed", "simulated"])
def test_there_may_be_fewer_plans_than_asked_for(objective: Objective) -> None:
    problem, table, data = made(over_of(""), objective, shared=True, top=90)
    data["asked"] = {"top": 90}
    assert len(data["alternatives"]) < 89
    assert findings(data, problem, table) == ""


def test_no_plan_where_some_are_possible() -> None:
    over = over_of("fs", "cost", min_tokens_per_s=1e9)
    problem, table, data = made(over)
    data["over"][0]["fleets"]["min_tokens_per_s"] = 1.0
    assert "status: infeasible, but the fleets permit" in findings(data, problem, table)
    data = made(over_of("s"))[2]
    plan: Json = {"plan": None, "status": "unknown", "alternatives": []}
    said = findings({**data, **plan}, problem, table)
    assert "has a plan of 0.007413357, but there is no plan" in said


@pytest.mark.parametrize(
    ("nesting", "forge", "said"),
    [
        ("f", child(0, at={"c": 1}), "claims.children.0.at: names no cluster: 'c'"),
        ("f", child(0, at={"b": 3}), "at.b: is 3, the cluster has 2"),
        ("f", lambda x: x["over"].append({"fleets": {}}), "over.1: is not one of"),
        ("fs", lambda x: x["over"].reverse(), "over.1: is not one of fleets, sched"),
        ("fs", lambda x: x["claims"].update(by="schedules"), "by: is 'schedules', exp"),
        ("fs", child(0, by="divisions"), "claims.children.0.by: is 'divisions', exp"),
        ("d", change("divisions", most=5), "most: is 5, expected at most 4"),
        ("d", child(0, at={"a": [2]}), "children.0.at: is {'a': [2]}, expected a list"),
        ("d", child(1, parts=None), "parts: is None, expected a list"),
    ],
)
def test_what_is_no_claim_is_named(nesting: str, forge: Forge, said: str) -> None:
    problem, table, data = made(over_of(nesting))
    forge(data)
    with pytest.raises(InputError) as wrong:
        findings(data, problem, table)
    assert said in str(wrong.value)
