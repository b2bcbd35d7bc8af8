"""The guided tree search against brute force, and its manners."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hetopt.base.deadline import Deadline
from hetopt.check import check_result
from hetopt.errors import InputError
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.problem.training.principles import Principles
from hetopt.solvers.mcts import solver as mcts
from hetopt.solvers.mcts.data import SearchData, SpaceFact
from hetopt.solvers.mcts.guided import solve
from hetopt.solvers.mcts.subtree import Subtree
from hetopt.solvers.params import MctsParams, RaceParams
from hetopt.solvers.race.messages import NO_CUTOFF
from hetopt.solvers.request import Request
from tests.oracle import brute_force
from tests.oracle.instances import make_instance
from tests.solvers.mcts.values import exact, shape_of

if TYPE_CHECKING:
    from hetopt.formulations.decision import Decision
    from hetopt.results.result import Result
    from hetopt.solvers.progress import Progress
    from tests.oracle.instances import Instance

#: Searches an instance whose times are divided by a million.
SHORT = """
from dataclasses import replace
import numpy as np
from hetopt.solvers.mcts.guided import solve
from hetopt.solvers.params import MctsParams
from hetopt.solvers.request import Request
from tests.oracle.instances import make_instance

instance = make_instance(0)
def shorter(own):
    names = [name for name in own.columns() if name.endswith("_ns")]
    return replace(own, **{name: getattr(own, name) // 10**6 for name in names})
slices = tuple(
    replace(part, clusters=tuple(map(shorter, part.clusters)))
    for part in instance.table.slices
)
table = replace(instance.table, slices=slices)
params = MctsParams(jobs=0, iterations=100)
assert solve(Request(problem=instance.problem, table=table, params=params)).best
"""
HERE = MctsParams(jobs=0, iterations=16_000)
SEEDS = range(40)


def run(instance: Instance, params: RaceParams = HERE, seed: int = 0) -> Result:
    return solve(
        Request(
            problem=instance.problem, table=instance.table, params=params, seed=seed
        )
    )


@pytest.mark.quick_seeds(0)
@pytest.mark.parametrize("seed", SEEDS)
def test_plans_pass_the_check_and_none_beats_the_optimum(seed: int) -> None:
    instance = make_instance(seed)
    answer = brute_force.solve(instance.problem, instance.table)
    result = run(instance, replace(HERE, top=1 + seed % 3))
    findings = check_result(instance.problem, instance.table, result.to_json())
    assert findings == []
    if answer.best is None:
        assert result.best is None
        assert result.status in ("infeasible", "unknown")
        return
    assert result.best is not None
    optimum = float(answer.best.closed_form_ns) * 1e-9
    assert result.lower_bound_s is not None
    assert result.lower_bound_s <= optimum * (1 + 1e-9)
    slack = result.best.plan.pipeline.microbatches * 1e-9
    assert result.best.closed_form_s >= optimum - slack


@pytest.mark.slow
def test_nearly_always_it_is_the_optimum() -> None:
    shares = []
    for seed in SEEDS:
        instance = make_instance(seed)
        answer = brute_force.solve(instance.problem, instance.table).best
        best = run(instance).best
        assert (answer is None) == (best is None)
        if answer is not None and best is not None:
            shares.append(best.closed_form_s / (float(answer.closed_form_ns) * 1e-9))
    assert len(shares) >= 10
    assert sum(share <= 1 + 1e-6 for share in shares) >= 0.9 * len(shares)
    assert max(shares) < 1.2


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_filled_and_polished_plans_are_plans(seed: int) -> None:
    instance = make_instance(seed)
    problem, table = instance.problem, instance.table
    answer = brute_force.solve(problem, table)
    best = {found.shape: found.value_ns for found in answer.shapes}
    counts = problem.stage_counts
    search_data = SearchData(table, table.slices, problem.pins, counts, guided=True)
    free = problem.pins.units is None and not any(
        pins.units.allowed or pins.units.forbidden
        for pins in problem.pins.clusters.values()
    )

    def take(value: int, decision: Decision) -> int:
        assert exact(problem, table, decision) == value
        if not problem.pins.microbatches.permits(decision.microbatches):
            return NO_CUTOFF
        # Never better than the best split of the same shape, whose lambda brute force
        # rounds up to whole ns.
        rounded = decision.microbatches - 1
        assert value >= (best[shape_of(table, decision)] - rounded) * PERIOD_SCALE
        return NO_CUTOFF

    for stages in search_data.stages:
        tree = Subtree(
            search_data, stages, seed=[0], exploration=1.0, most_nodes=1000, reference=1
        )
        assert bool(tree.space.facts[SpaceFact.FILLED]) or not free
        tree.iterate(50, take, NO_CUTOFF)


def test_it_is_better_than_mcts_with_as_many_iterations() -> None:
    params = MctsParams(jobs=0, iterations=10_000)
    ratios = []
    for seed in (3, 5, 9, 10, 15):
        made = make_instance(seed)
        guided = run(made, params).best
        plain = mcts.solve(
            Request(problem=made.problem, table=made.table, params=params)
        ).best
        if guided is not None and plain is not None:
            ratios.append(guided.closed_form_s / plain.closed_form_s)
    assert ratios
    assert np.mean(ratios) <= 1


def test_time_ends_it() -> None:
    began = time.monotonic()
    instance = make_instance(5)
    result = solve(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0),
            deadline=Deadline.after(0.5),
        )
    )
    assert result.best is not None
    assert time.monotonic() - began < 10


def test_it_ends_where_times_are_a_few_nanoseconds() -> None:
    """In a process of its own: compiled code would go on whatever the time is."""
    done = subprocess.run(
        [sys.executable, "-c", SHORT], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_every_better_plan_is_told() -> None:
    told: list[Progress] = []
    result = run(make_instance(5), replace(HERE, on_progress=told.append))
    assert result.best is not None
    values = [said.incumbent_s for said in told if said.incumbent_s is not None]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(result.best.closed_form_s)


def test_other_spaces_are_refused() -> None:
    instance = make_instance(5)
    with pytest.raises(InputError, match="mcts-guided cannot relax p4"):
        run(instance, replace(HERE, principles=Principles.relaxing(["p4"])))
    with pytest.raises(InputError, match="leaves warm-up counts to hetopt plan"):
        run(make_instance(5, schedule="free-1f1b"))
