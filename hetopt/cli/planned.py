"""Reads a plan with its problem and table, for the commands that start from a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hetopt.base.reading import named
from hetopt.base.words import counted
from hetopt.cli.as_asked import ensure_as_asked, problem_asked
from hetopt.cli.inputs import load_problem_of, load_table
from hetopt.cli.plan_files import read_json
from hetopt.errors import CheckError, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.check.claims.asked import Runs
    from hetopt.check.verify.said import Said
    from hetopt.check.verify.tree import Launcher
    from hetopt.cost.table.table import CostTable
    from hetopt.export.launcher import Limits
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.results.front import Front
    from hetopt.results.result import Result


def load_front(problem_name: str, path: str, table_path: str | None) -> Front:
    """Read a front, and check all its claims.

    Raises
    ------
    CheckError
        Something differs; one finding for each difference.
    DigestError
        The plans belong to another problem or table.
    InputError
        The file is no front.
    """
    from hetopt.check.claims.front import check_front
    from hetopt.check.plan.reading import items, mapping, read_plan
    from hetopt.results.front import Front

    data = read_json(path)
    with named(path):
        front = Front.from_json(data)
        points = items(data, "points", "")
        plans = [
            read_plan(mapping(item, place).get("plan"), f"{place}.plan")
            for place, item in points
        ]
    first = next(iter(plans), None)
    problem = _problem_of(problem_name, first, path, data, lengths=True)
    table = load_table(problem, table_path)
    with named(path):
        if findings := check_front(problem, table, data, runs_of(problem, data)):
            raise CheckError(findings)
        ensure_runs(problem, data, plans)
        ensure_as_asked(problem_name, data)
    return front


class Reported(NamedTuple):
    """What a plan file holds, checked, with the problem and table it was made from.

    Attributes
    ----------
    problem
        The user's, with the schedule of the plan, since ``hetopt plan --schedule`` may
        have changed it, and with the limits of the launcher that the plan is for.
    plans
        The plan and its alternatives, best first.
    result
        None if the file has only a plan.
    """

    problem: Problem
    table: CostTable
    plans: list[Plan]
    result: Result | None


def load_reported(
    problem_name: str,
    plan_path: str,
    table_path: str | None,
    *,
    several: bool = False,
    lengths: bool = False,
) -> Reported:
    """Read a plan and its alternatives, and check every claim of the file.

    A file with only a plan, without times, is checked for feasibility; as it does not
    say which principles were relaxed, it must keep all of them.

    Parameters
    ----------
    several
        Whether the plan may have several pipelines; else it is refused.
    lengths
        Whether sequences may have several lengths; else they are refused.

    Raises
    ------
    CheckError
        Something differs; one finding for each difference.
    DigestError
        The plan belongs to another problem or table.
    InputError
        The file holds no plan, or a key of the result is missing.
    """
    from hetopt.check import check_plan, check_result
    from hetopt.check.plan.reading import read_plan
    from hetopt.results.result import Result

    data = read_json(plan_path)
    with named(plan_path):
        plan = _plan_in(data)
        if len(plan.pipelines) > 1:
            _ensure_may_be_several(plan, table_path, several=several)
    problem = _problem_of(problem_name, plan, plan_path, data, lengths=lengths)
    if problem.training.lengths is not None and table_path is not None:
        msg = "has no rows for sequences of several lengths: leave it out"
        raise InputError(msg, field="--table")
    table = load_table(problem, table_path)
    with named(plan_path):
        if _is_alone(data):
            check_plan(problem, table, plan)
            return Reported(problem, table, [plan], None)
        runs = runs_of(problem, data)
        if findings := check_result(problem, table, data, runs=runs):
            raise CheckError(findings)
        others = [
            read_plan(other["plan"], f"alternatives.{number}.plan")
            for number, other in enumerate(data["alternatives"])
        ]
        ensure_runs(problem, data, [plan, *others])
        ensure_as_asked(problem_name, data)
        result = Result.from_json(data)
    return Reported(problem, table, [plan, *others], result)


def _plan_in(data: Mapping[str, Any]) -> Plan:
    """Return the plan of a result, or that is alone in its file."""
    from hetopt.check.plan.reading import read_plan
    from hetopt.results.result import Result

    if _is_alone(data):
        return read_plan(data, "")
    _ensure_no_front(data)
    if data.get("plan") is None:
        status = data.get("status")
        detail = f" (its status is {status!r})" if isinstance(status, str) else ""
        raise InputError(f"there is no plan{detail}", field="plan")
    Result.from_json(data)
    return read_plan(data["plan"], "plan")


def _ensure_no_front(data: Mapping[str, Any]) -> None:
    """Raise InputError if a file holds the plans of a front."""
    from hetopt.results.front import FRONT_SCHEMA

    if data.get("schema") == FRONT_SCHEMA:
        msg = (
            "is a front, expected one plan: `hetopt plan --budget` with the price an "
            "hour of one of its plans finds it"
        )
        raise InputError(msg, field="schema")


def _is_alone(data: Mapping[str, Any]) -> bool:
    """Whether a file has a plan alone, in its form, or a result or anything else."""
    from hetopt.plans.plan import Plan

    if data.get("schema") not in (Plan.SCHEMA, *Plan.FURTHER):
        return False
    Plan.from_json(data)
    return True


def _ensure_may_be_several(
    plan: Plan, table_path: str | None, *, several: bool
) -> None:
    """Raise InputError if a plan of several pipelines cannot be used here."""
    if not several:
        msg = (
            f"has {counted(len(plan.pipelines), 'pipeline')}, this command takes plans "
            "of one: plan again with --pipelines 1"
        )
        raise InputError(msg, field="pipelines")
    if table_path is not None:
        msg = "has no rows for pipelines on some of the nodes: leave it out"
        raise InputError(msg, field="--table")


def _limits(data: Mapping[str, Any]) -> tuple[str, Limits] | None:
    """Return the launcher that an answer is for, and its limits, if there is one."""
    from hetopt.check.plan.reading import choice
    from hetopt.export.registry import limited_names, limits_of

    places = [(f"over[{n}]", each) for n, each in enumerate(data.get("over", ()))]
    # Results of before say it only there.
    places.append(("launch", data.get("launch", {})))
    for place, each in places:
        if "launcher" in each:
            name = choice(each, "launcher", limited_names(), place)
            return name, limits_of(name)
    return None


def _problem_of(
    problem_name: str,
    plan: Plan | None,
    path: str,
    data: Mapping[str, Any],
    *,
    lengths: bool = False,
) -> Problem:
    """Return the problem that an answer is of, within the limits of its launcher.

    Its schedule is that of the plan, or without one, the one that was asked for.
    """
    from hetopt.export.planning.limits import fitted

    if plan is None:
        with named(path):
            asked = problem_asked(problem_name, data)
        if asked is not None:
            return asked
    problem = load_problem_of(problem_name, plan, path, lengths=lengths)
    with named(path):
        known = _limits(data)
        return problem if known is None else fitted(known[1], problem)


def launcher_in(problem: Problem, data: Mapping[str, Any]) -> Launcher | None:
    """Return what the launcher of an answer runs; None if it is for none."""
    from hetopt.check.verify.tree import Launcher
    from hetopt.export.planning.runnable import launchable
    from hetopt.solvers.search.branchings.schedules import ScheduleVariant

    if (known := _limits(data)) is None:
        return None
    launcher = launchable(known[0], problem)
    return Launcher(
        runs=lambda variant: (
            launcher.passed_over(ScheduleVariant(**variant._asdict())) is None
        ),
        split=launcher.split,
        sharing=None if launcher.together is None else launcher.together.sharing,
    )


def runs_of(problem: Problem, data: Mapping[str, Any]) -> Runs | None:
    """Return whether an answer's launcher runs a schedule; None if it has none."""
    launcher = launcher_in(problem, data)
    return None if launcher is None else launcher.runs


def ensure_runs(
    problem: Problem, data: Mapping[str, Any], plans: Sequence[Plan]
) -> None:
    """Raise CheckError unless the launcher of an answer, if any, runs its plans."""
    from hetopt.export.planning.limits import runs
    from hetopt.results.claims import asked

    if (known := _limits(data)) is None:
        return
    name, limits = known
    if (divided := asked(data.get("over", ()), "divisions")) is not None:
        together = limits.together
        alike = [] if together is None else [*together.values(problem)]
        if divided.get("alike", []) != alike:
            what = ", ".join(alike) or "nothing"
            raise CheckError([f"over.divisions.alike: {name}'s pipelines share {what}"])
    able = [runs(limits, problem, plan) for plan in plans]
    if not all(able):
        number = able.index(False)
        which = "plan" if number == 0 else f"alternatives[{number - 1}].plan"
        raise CheckError([f"{which}: {name} does not run it as it is"])


class Planned(NamedTuple):
    """A problem, and what a plan file says; nothing of that is checked.

    Attributes
    ----------
    result
        The file's JSON; None if it has only a plan.
    """

    problem: Problem
    said: Said
    result: dict[str, Any] | None


def load_planned(problem_name: str, plan_path: str, table_path: str | None) -> Planned:
    """Read a problem and a plan file, which may have no plan; check nothing."""
    from hetopt.check.plan.reading import read_plan, read_principles
    from hetopt.check.verify.said import Said
    from hetopt.results.result import Result

    data = read_json(plan_path)
    said = Said(plan=None)
    with named(plan_path):
        if alone := _is_alone(data):
            said = Said(plan=read_plan(data, ""))
        elif data.get("schema") != Result.SCHEMA:
            _ensure_no_front(data)
            raise InputError("is neither a result nor a plan", field="schema")
        else:
            Result.from_json(data)
            said = Said(
                plan=None if data["plan"] is None else read_plan(data["plan"], "plan"),
                relaxed=read_principles({"relaxed": [], **data}).relaxed,
                **{name: data[name] for name in Said.SAME},
            )
        plan = said.plan
        if plan is not None and len(plan.pipelines) > 1:
            _ensure_may_be_several(plan, table_path, several=True)
    problem = _problem_of(problem_name, plan, plan_path, data)
    return Planned(problem=problem, said=said, result=None if alone else data)
