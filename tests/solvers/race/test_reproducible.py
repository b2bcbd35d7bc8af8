"""With a budget of iterations a seed gives one plan, however it is searched."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from hetopt.solvers.loading import load
from hetopt.solvers.params import MctsParams
from hetopt.solvers.request import Request
from tests.oracle.instances import make_instance

#: Solver -> an instance with many plans, and too few iterations to see them all.
DRAWS = {"mcts": (3, 500), "mcts-guided": (5, 30_000)}

_ALONE = """
import json, sys
from tests.solvers.race.test_reproducible import found
print(json.dumps(found(sys.argv[1], jobs=0)))
"""


def found(solver: str, jobs: int) -> dict[str, object]:
    """All that a search says but times."""
    instance, iterations = DRAWS[solver]
    made = make_instance(instance)
    params = MctsParams(jobs=jobs, iterations=iterations, top=3)
    result = load(solver)(
        Request(problem=made.problem, table=made.table, params=params, seed=1)
    )
    told = result.to_json()
    keys = ("plan", "alternatives", "lower_bound_s", "settlements")
    return {key: told[key] for key in keys}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("solver", DRAWS)
def test_the_plan_does_not_depend_on_the_processes(solver: str) -> None:
    alone = found(solver, jobs=0)
    assert alone["plan"] is not None
    assert alone == found(solver, jobs=1)
    assert alone == found(solver, jobs=2)


@pytest.mark.slow
@pytest.mark.parametrize("solver", DRAWS)
def test_the_plan_does_not_depend_on_hashes(solver: str) -> None:
    plans = []
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", _ALONE, solver],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        plans.append(json.loads(done.stdout))
    assert plans[0]["plan"] is not None
    assert plans[0] == plans[1]
