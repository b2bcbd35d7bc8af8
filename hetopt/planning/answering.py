"""Whether an answer is one to what it says was asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hetopt.solvers.registry import relaxed_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.planning.asked import Search
    from hetopt.problem.problem import Problem
    from hetopt.results.claims import Json

_DIFFERS = "is not of what was asked"


def asked_findings(asked: Search, answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield in what an answer differs from one to a search.

    Parameters
    ----------
    asked
        As ``asked`` of the answer describes it.
    answer
        A result or a front as JSON data; its own claims are checked elsewhere.
    """
    problem, over = asked.over()
    expected = _by_name(json.loads(json.dumps(over.to_json())))
    said = _by_name(answer.get("over", ()))
    if asked.schedule is None and not asked.schedules:
        # An answer over any schedule may be read with a problem that names one.
        said.pop("schedules", None)
    for name in dict.fromkeys([*expected, *said]):
        if expected.get(name) != said.get(name):
            yield f"over.{name}: {_DIFFERS}"
    wide = relaxed_by(asked.solver, asked.principles)
    if tuple(answer.get("relaxed", ())) != wide:
        yield f"relaxed: {_DIFFERS}"
    aim = "cost" if asked.measure == "cost" else asked.time
    if aim not in (None, answer["objective"]):
        yield f"objective: {answer['objective']} {_DIFFERS}"
    if asked.solver not in ("auto", answer["solver"]):
        yield f"solver: {answer['solver']} {_DIFFERS}"
    plan = answer.get("plan")
    if plan is None:
        return
    if len(answer["alternatives"]) >= asked.top:
        yield f"alternatives: more than {asked.top - 1}, which {_DIFFERS}"
    for key, wanted in (
        ("launch", over.launcher is not None),
        ("stability", asked.stability),
    ):
        there = answer.get(key)
        # A search that is stopped may come to no row of stability.
        stopped = asked.time_limit_s is not None or answer["status"] != "optimal"
        if wanted and there == [] and stopped:
            continue
        if bool(there) != wanted:
            yield f"{key}: is missing" if wanted else f"{key}: {_DIFFERS}"
    # A problem that asks for another schedule by itself takes that of the plan.
    if asked.schedule is not None and not asked.schedules:
        yield from (f"plan.{key}: {_DIFFERS}" for key in other_schedule(problem, plan))


def other_schedule(problem: Problem, plan: Mapping[str, Any]) -> list[str]:
    """Return in what a plan has another schedule than its problem asks for."""
    training = problem.training
    asked = {
        "schedule": training.schedule,
        "chunks": training.chunks,
        "warmup_epsilon": training.epsilon,
    }
    has = {"chunks": 1, "warmup_epsilon": None, **plan}
    return [key for key, value in asked.items() if has[key] != value]


def _by_name(over: Any) -> dict[str, Json]:
    return {name: value for each in over for name, value in each.items()}
