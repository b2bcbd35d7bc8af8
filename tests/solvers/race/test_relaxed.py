"""The MIQP where P3 or P4 is relaxed, against brute force and the pruned space."""

from __future__ import annotations

import importlib.util
import json
import os
from dataclasses import replace
from fractions import Fraction

import pytest

from hetopt.base.deadline import Deadline, Stopped
from hetopt.check import check_result
from hetopt.errors import InputError
from hetopt.problem.training.principles import Principles
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.race import race as race_module
from hetopt.solvers.registry import SOLVERS
from hetopt.solvers.request import Request
from tests.oracle import brute_force
from tests.oracle.instances import make_instance

TICK = Fraction(1, 10**9)
#: Instances by default; HETOPT_TEST_RELAXED=200 tries that many instead.
COUNT = int(os.environ.get("HETOPT_TEST_RELAXED", "24"))
#: Where relaxing p4, p3 or both pays, the order of tp matters, or nothing else fits.
PAYING = (6, 79, 94, 123, 319, 3, 23, 8, 105, 302, 4, 135)
SPACES = tuple(
    Principles.relaxing(names)
    for names in (["p4"], ["p4-falling-tp"], ["p3"], ["p3", "p4"])
)
needs_scip = pytest.mark.skipif(
    importlib.util.find_spec("pyscipopt") is None, reason="PySCIPOpt is not installed"
)
SOLVER = [
    pytest.param("miqp-highs", id="highs"),
    pytest.param("miqp-scip", id="scip", marks=needs_scip),
]
CASES = [(seed, SPACES[i % 4]) for i, seed in enumerate(range(800, 800 + COUNT))]
CASES += [(seed, space) for seed in PAYING[:4] for space in SPACES[:2]]
CASES += [(seed, space) for seed in PAYING[4:] for space in SPACES[::3]]


@pytest.mark.parametrize("name", SOLVER)
@pytest.mark.parametrize(("seed", "space"), CASES)
def test_same_optimum_or_same_infeasibility(
    name: str, seed: int, space: Principles
) -> None:
    instance = make_instance(seed, widest=True)
    problem, costs = instance.problem, instance.table
    best = brute_force.solve(problem, costs, space).best
    params = RaceParams(jobs=0, principles=space)
    result = load(name)(
        Request(
            problem=problem, table=costs, params=params, deadline=Deadline.after(300)
        )
    )
    assert result.relaxed == space.relaxed
    data = json.loads(json.dumps(result.to_json()))
    assert check_result(problem, costs, data) == []
    if best is None:
        assert result.status == "infeasible"
        return
    assert result.status == "optimal"
    assert result.best is not None
    # Of equally good plans any may be reported, and the period is not rounded.
    q = result.best.plan.pipeline.microbatches
    slack = float(max(q, best.shape[1]) * TICK)
    exact = float(best.closed_form_ns * TICK)
    assert result.best.closed_form_s == pytest.approx(exact, rel=1e-12, abs=slack)


@pytest.mark.parametrize(
    "name", [name for name, own in SOLVERS.items() if not own.relaxes]
)
def test_what_knows_only_the_pruned_space_says_so(name: str) -> None:
    instance = make_instance(0)
    with pytest.raises(InputError, match=f"{name} cannot relax p3, p4: use auto, dp"):
        load(name)(
            Request(
                problem=instance.problem,
                table=instance.table,
                params=RaceParams(principles=SPACES[-1]),
                deadline=Deadline.after(1),
            )
        )


@pytest.mark.parametrize("space", SPACES)
def test_a_wider_space_begins_with_the_best_plan_of_the_pruned_one(
    space: Principles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So plans are never worse than without, however short the time."""
    instance = make_instance(PAYING[0])
    request = Request(
        problem=instance.problem, table=instance.table, params=RaceParams(jobs=0)
    )
    pruned = load("dp")(request).best
    assert pruned is not None
    settle = race_module._Race._settle
    reached = []

    def stop_if_relaxed(loop: race_module._Race) -> None:
        reached.append(loop)
        if len(reached) == 2:
            raise Stopped
        settle(loop)

    monkeypatch.setattr(race_module._Race, "_settle", stop_if_relaxed)
    monkeypatch.setattr(race_module._Race, "_plan_relaxed", lambda loop: None)
    params = RaceParams(jobs=0, principles=space)
    found = load("dp")(replace(request, params=params)).best
    assert len(reached) == 2
    assert found is not None
    assert found.closed_form_s <= pruned.closed_form_s
