"""Searches whose claims are written, read and checked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import hetopt
from hetopt.base.deadline import Deadline
from hetopt.check import check_result
from hetopt.check.claims.front import check_front
from hetopt.cost.build import build_table
from hetopt.planning.posed import search, tree_of
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.schemas import ensure_fits

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem
    from hetopt.results.front import Front
    from hetopt.results.result import Objective, Result
    from hetopt.solvers.search.over import Over

#: The end of a search that has no time.
AT_ONCE_S = 1e-9


def request_of(
    problem: Problem, limit_s: float | None = None, **params: Any
) -> Request:
    """Return a request for the plans of a problem."""
    return Request(
        problem=problem,
        table=build_table(problem),
        params=RaceParams(jobs=0, **params),
        deadline=Deadline.after(limit_s),
    )


def found(request: Request, over: Over, objective: Objective = "closed") -> Result:
    """Return a result that is as its schema says, and that the checker agrees with."""
    result = search(request, solver="dp", objective=objective, over=over)
    ensure_holds(request, result)
    return result


def ensure_holds(request: Request, result: Result) -> None:
    """Fail unless the checker agrees with what was written, which can be read again."""
    data = json.loads(json.dumps(result.to_json()))
    ensure_fits(data, "result")
    problem, table = result.problem or request.problem, result.table or request.table
    assert check_result(problem, table, data) == []
    assert hetopt.Result.from_json(data).to_json() == data


def front_of(request: Request, over: Over, objective: Objective = "closed") -> Front:
    """Return a front as ``found`` returns a result."""
    front = tree_of(request, solver="dp", objective=objective, over=over).front()
    data = json.loads(json.dumps(front.to_json()))
    ensure_fits(data, "front")
    assert check_front(request.problem, request.table, data) == []
    return front
