"""``uniform`` and ``amp`` against brute force over their own spaces."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from math import isclose
from typing import NoReturn

import pytest

from hetopt.base.deadline import Deadline
from hetopt.check import check_result
from hetopt.problem.digest import problem_digest
from hetopt.results.result import Result
from hetopt.solvers import loading
from hetopt.solvers.heuristics import one_strategy
from hetopt.solvers.heuristics.one_strategy import solve_amp, solve_uniform
from hetopt.solvers.params import RaceParams
from hetopt.solvers.progress import Progress
from hetopt.solvers.request import Request
from hetopt.solvers.unproven.finds import Finds
from tests.oracle import brute_force, restricted
from tests.oracle.instances import Instance, make_instance

#: Instances; every fifth has the same schedule.
INSTANCES = int(os.environ.get("HETOPT_RIVALS_INSTANCES", "100"))
SOLVES = {"uniform": solve_uniform, "amp": solve_amp}
TICK = Fraction(1, 10**9)


def check_against_brute_force(name: str, instance: Instance) -> Result:
    problem, table = instance.problem, instance.table
    result = SOLVES[name](Request(problem=problem, table=table))
    plans = list(restricted.plans(problem, table, equal=name == "uniform"))
    if not plans:
        assert result.best is None
        assert result.status in ("infeasible", "unknown")
        assert result.reason
    else:
        assert result.status == "feasible"
        assert result.best is not None
        least = min(plan.closed_form_ns for plan in plans)
        # Plans are ranked with the period rounded up to a thousandth of a tick.
        assert result.best.closed_form_s == pytest.approx(float(least * TICK), rel=1e-9)
        assert result.lower_bound_s is not None
        assert result.lower_bound_s <= float(least * TICK) * (1 + 1e-12)
    assert check_result(problem, table, result.to_json()) == []
    return result


@pytest.mark.parametrize("name", SOLVES)
@pytest.mark.parametrize("seed", range(INSTANCES))
def test_best_of_its_own_space(name: str, seed: int) -> None:
    instance = make_instance(seed)
    result = check_against_brute_force(name, instance)
    if result.status == "infeasible":
        assert brute_force.solve(instance.problem, instance.table).best is None


@pytest.mark.parametrize("name", SOLVES)
@pytest.mark.parametrize("seed", range(INSTANCES))
def test_best_of_the_plans_that_use_every_cluster(name: str, seed: int) -> None:
    # Few drawn problems have such a plan; the attempts after this seed's own seldom do.
    for other in range(seed, seed + 50 * INSTANCES, INSTANCES):
        instance = make_instance(other, pinned=False, clusters=2)
        free = instance.problem
        plans = [
            plan.closed_form_ns
            for plan in restricted.plans(free, instance.table, equal=name == "uniform")
            if len(set(plan.shape[2])) == len(free.clusters)
        ]
        if plans:
            break
    else:
        pytest.fail("no drawn problem has a plan that uses every cluster")
    problem = free.with_every_cluster()
    table = replace(instance.table, problem_digest=problem_digest(problem))
    for deadline in (Deadline(), Deadline.after(0.0)):
        request = Request(problem=problem, table=table, deadline=deadline)
        result = SOLVES[name](request)
        least = float(min(plans) * TICK)
        if result.best is None:
            assert deadline.is_over()
            continue
        if deadline.is_over():
            assert result.best.closed_form_s >= least * (1 - 1e-9)
        else:
            assert result.best.closed_form_s == pytest.approx(least, rel=1e-9)
        used = {stage.cluster for stage in result.best.plan.pipeline.stages}
        assert used == {cluster.name for cluster in free.clusters}
        assert check_result(problem, table, result.to_json()) == []


@pytest.mark.parametrize("name", SOLVES)
@pytest.mark.parametrize("seed", [10, 12, 23, 31])
def test_the_next_best_are_other_shapes(name: str, seed: int) -> None:
    instance = make_instance(seed, pinned=False)
    problem, table = instance.problem, instance.table
    result = SOLVES[name](
        Request(problem=problem, table=table, params=RaceParams(top=3))
    )
    best: dict[object, Fraction] = {}
    for plan in restricted.plans(problem, table, equal=name == "uniform"):
        best[plan.shape] = min(
            best.get(plan.shape, plan.closed_form_ns), plan.closed_form_ns
        )
    assert result.best is not None
    found = [result.best, *result.alternatives]
    expected = sorted(best.values())[:3]
    assert [other.closed_form_s for other in found] == pytest.approx(
        [float(value * TICK) for value in expected], rel=1e-9
    )
    assert check_result(problem, table, result.to_json()) == []


def test_progress_tells_of_every_improvement() -> None:
    instance = make_instance(12, pinned=False)
    told: list[Progress] = []
    result = solve_amp(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(on_progress=told.append),
        )
    )
    values = [progress.incumbent_s for progress in told]
    assert values
    assert values == sorted(values, key=lambda value: -(value or 0))
    assert len(set(values)) == len(values)
    assert result.best is not None
    assert values[-1] == pytest.approx(result.best.closed_form_s, rel=1e-9)


@pytest.mark.parametrize("name", SOLVES)
@pytest.mark.parametrize(
    ("seed", "clusters"), [(5, None), (12, None), (17, None), (703, 3), (944, 2)]
)
def test_without_time_there_is_still_a_plan_of_the_space(
    name: str, seed: int, clusters: int | None
) -> None:
    instance = make_instance(seed, pinned=False, clusters=clusters)
    problem, table = instance.problem, instance.table
    result = SOLVES[name](
        Request(problem=problem, table=table, deadline=Deadline.after(0.0))
    )
    assert check_result(problem, table, result.to_json()) == []
    found = [] if result.best is None else [result.best.closed_form_s]
    plans = restricted.plans(problem, table, equal=name == "uniform")
    times = [float(plan.closed_form_ns * TICK) for plan in plans]
    assert all(any(isclose(time, each) for each in times) for time in found)
    assert found


@pytest.mark.parametrize("name", SOLVES)
def test_a_plan_is_looked_for_before_the_bounds_take_the_time(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking for one after the limit took a problem of many strategies seconds."""
    late: list[bool] = []

    def look(self: Finds) -> None:
        late.append(self.request.deadline.is_over())
        ensure(self)

    def bound(finds: Finds, *, equal: bool) -> NoReturn:
        while True:
            finds.check_time()

    ensure = Finds.ensure_plan
    monkeypatch.setattr(Finds, "ensure_plan", look)
    monkeypatch.setattr(one_strategy, "_bounds", bound)
    instance = make_instance(12, pinned=False)
    request = Request(
        problem=instance.problem, table=instance.table, deadline=Deadline.after(1.0)
    )
    result = SOLVES[name](request)
    assert result.status == "feasible"
    assert late[0] is False
    assert result.search_time_s < 1.0 + 0.5


def test_a_bound_that_is_met_proves_nothing_where_links_are_shared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There plans are priced again; the tie rule has not chosen among them either."""
    instance = make_instance(21)
    asked = Request(problem=instance.problem, table=instance.table)
    monkeypatch.setattr(
        loading, "searched_table", lambda table, *_, **how: replace(table)
    )
    result = loading.load("uniform")(asked)
    assert result.gap is not None
    assert result.gap < 1e-6
    assert result.status == "feasible"


def test_it_does_not_say_that_it_was_stopped() -> None:
    instance = make_instance(0)
    asked = Request(problem=instance.problem, table=instance.table)
    best = loading.load("uniform")(asked).best
    assert best is not None
    below = replace(asked, cutoff_s=0.98 * best.closed_form_s)
    result = loading.load("uniform")(below)
    assert result.best is None
    assert (result.reason or "").startswith("uniform found no plan within the cutoff")
