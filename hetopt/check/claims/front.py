"""Check every claim of a front of time and price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.base.words import counted
from hetopt.check.claims.asked import TOLERANCE, Asked
from hetopt.check.claims.fleets import Fleets
from hetopt.check.claims.tree import plan_findings, root_of
from hetopt.check.plan.cost import cost_findings
from hetopt.check.plan.plan import check_plan
from hetopt.check.plan.reading import (
    choice,
    choices,
    items,
    mapping,
    number,
    read_plan,
    read_principles,
    text,
    whole,
)
from hetopt.errors import CheckError, InputError
from hetopt.problem.training.principles import PRUNED
from hetopt.results.front import FRONT_SCHEMA
from hetopt.results.result import Status, Time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.check.claims.asked import Runs
    from hetopt.check.plan.plan import CheckedPlan
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem


def check_front(
    problem: Problem,
    table: CostTable,
    data: Mapping[str, Any],
    runs: Runs | None = None,
) -> list[str]:
    """Return one line for every claim of a front that does not hold.

    Parameters
    ----------
    problem, table
        Under the schedule of one of the plans, or the only one that was searched.
    data
        As ``Front.to_json`` makes it.
    runs
        See ``check_result``.

    Raises
    ------
    InputError
        The data is not a front; the field names the key.
    DigestError
        A plan in it was made from another problem or table.
    """
    return list(_findings(problem, table, mapping(data, ""), runs))


def _findings(
    problem: Problem, table: CostTable, data: Mapping[str, Any], runs: Runs | None
) -> Iterator[str]:
    choice(data, "schema", (FRONT_SCHEMA,), "")
    status = choice(data, "status", choices(Status), "")
    simulated = choice(data, "objective", choices(Time), "") == "simulated"
    text(data, "solver", "")
    principles = read_principles(data) if "relaxed" in data else PRUNED
    asked = Asked(problem, table, data, principles, runs)
    if asked.measure != "front":
        raise InputError("is no front: it needs fleets, measured so", field="over")
    root = root_of(asked, data)
    assert isinstance(root, Fleets)
    yield from asked.wrong
    yield from asked.status_findings(status)
    known: list[tuple[float, float]] = []
    slack_s = 0.0
    for place, item in items(data, "points", ""):
        entry = mapping(item, place)
        plan = read_plan(entry.get("plan"), f"{place}.plan")
        own = asked.under(plan)
        try:
            checked = check_plan(*own, plan, principles)
        except CheckError as error:
            yield from (f"{place}: {finding}" for finding in error.findings)
            continue
        yield from _point_findings(*own, plan, checked, entry, place)
        time_s = checked.iteration_time_s if simulated else checked.closed_form_s
        own_findings = plan_findings(asked, root, plan, time_s)
        yield from (f"{place}: {each}" for each in own_findings)
        price = asked.price_of(plan)
        if known and not (price > known[-1][0] and time_s < known[-1][1]):
            yield (
                f"{place}: expected a higher price and a shorter time than the point "
                "before it"
            )
        known.append((price, time_s))
        slack_s = max(slack_s, asked.slack_s(plan.chunks))
    open_ = whole(data, "open", "", least=0)
    left = root.undecided(known, slack_s)
    if left > open_:
        yield (
            f"open: {open_}, but {counted(left, 'choice')} of nodes may hold a better "
            "plan"
        )
    if status in ("optimal", "infeasible") and open_:
        yield f"status: {status}, but open: {open_}"
    if (status == "infeasible") != (not known and not open_):
        yield f"status: {status}, with {counted(len(known), 'point')}"


def _point_findings(
    problem: Problem,
    table: CostTable,
    plan: Plan,
    checked: CheckedPlan,
    entry: Mapping[str, Any],
    place: str,
) -> Iterator[str]:
    for key, expected in (
        ("closed_form_s", checked.closed_form_s),
        ("iteration_time_s", checked.iteration_time_s),
        ("tokens_per_s", table.tokens / checked.iteration_time_s),
    ):
        claimed = number(entry, key, place)
        if claimed is None or abs(claimed - expected) > TOLERANCE * expected:
            yield f"{place}.{key}: {claimed}, expected {expected!r}"
    cost = mapping(entry.get("cost"), f"{place}.cost")
    for finding in cost_findings(problem, plan, checked.iteration_time_s, cost):
        yield f"{place}.{finding}"
