"""Compares an answer with what it says was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.cli.again import options_of
from hetopt.cli.asking import plan_asked
from hetopt.errors import CheckError, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.problem import Problem


def problem_asked(problem: str, data: Mapping[str, Any]) -> Problem | None:
    """Return the problem that an answer is of by what it says was asked, if it does."""
    if data.get("asked") is None:
        return None
    found, _ = plan_asked(options_of(data, problem)).over()
    return found


def ensure_as_asked(problem: str, data: Mapping[str, Any]) -> None:
    """Raise CheckError unless an answer is one to what it says was asked."""
    from hetopt.planning.answering import asked_findings

    if data.get("asked") is None:
        return
    try:
        asked = plan_asked(options_of(data, problem))
        findings = list(asked_findings(asked, data))
    except InputError as error:
        findings = [f"asked: {error}"]
    if findings:
        raise CheckError(findings)


def schedule_note(problem: str, data: Mapping[str, Any]) -> str | None:
    """Return that an answer is of other schedules than its problem asks for, if so."""
    from hetopt.cli.inputs import load_problem
    from hetopt.planning.answering import other_schedule

    asked = data.get("asked") or {}
    plan = data.get("plan", data if "pipelines" in data else None)
    over = {name for each in data.get("over", ()) for name in each}
    if plan is None or "launcher" in over or "schedule" in asked:
        return None
    own = load_problem(problem, lengths=True, divided=False, any_schedule=True)
    is_any = "schedules" in over
    if own.training.any_schedule or not (is_any or other_schedule(own, plan)):
        return None
    under = "any schedule" if is_any else plan["schedule"]
    return (
        f"not what the problem asks for, which is {own.training.schedule}: what is "
        f"said is of plans under {under}"
    )
