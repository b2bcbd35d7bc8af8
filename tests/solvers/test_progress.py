"""No search tells of a better plan, or of a higher bound, than it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hetopt.base.deadline import Deadline
from hetopt.errors import InputError
from hetopt.planning.solving import solve_for
from hetopt.solvers.params import MctsParams, RaceParams
from hetopt.solvers.refusals import ensure_plans
from hetopt.solvers.request import Request
from tests.agreement.generator import features_of, in_simulated_time, make

if TYPE_CHECKING:
    from hetopt.results.result import Result, Time
    from hetopt.solvers.progress import Progress
    from tests.agreement.generator import Features


@pytest.mark.parametrize("seed", [*range(45), 69])
def test_of_one_problem(seed: int) -> None:
    for features in features_of(seed), in_simulated_time(seed):
        if features.relaxed or features.lengths or features.large:
            continue
        instance = make(features)
        objective = features.objective
        for solver in _solvers(features):
            told: list[Progress] = []
            params: RaceParams = RaceParams(jobs=0, on_progress=told.append)
            if solver == "mcts":
                params = MctsParams(jobs=0, iterations=30, on_progress=told.append)
            request = Request(
                problem=instance.problem,
                table=instance.table,
                params=params,
                deadline=Deadline.after(30.0),
            )
            _compare(told, solve_for(solver, objective)(request), objective)


def _solvers(features: Features) -> tuple[str, ...]:
    """Return an exact solver, and one that proves nothing where there is one."""
    try:
        ensure_plans("mcts", features.schedule)
    except InputError:
        return ("dp",)
    return ("dp", "mcts") if features.objective == "closed" else ("dp",)


def _compare(told: list[Progress], result: Result, objective: Time) -> None:
    if result.best is None:
        return
    best_s = result.best.time_s(objective)
    for each in told:
        if each.incumbent_s is not None:
            assert each.incumbent_s >= best_s * (1 - 1e-9)
        if each.bound_s is not None:
            assert each.bound_s <= best_s * (1 + 1e-9)
