"""Warm-up counts as decisions: those of one plan, and the optimum under auto."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import pytest

from hetopt.check import check_plan, check_result
from hetopt.errors import CheckError, InputError
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.problem.digest import problem_digest
from hetopt.problem.training.choices import ScheduleName
from hetopt.problem.training.pins import Domain, Pins
from hetopt.schedule.closed_form import closed_form_ns
from hetopt.schedule.times import PipelineTimes
from hetopt.solvers.decisions.assembly import value_of
from hetopt.solvers.decisions.free_warmups import (
    free_warmups,
    least_warmups,
    most_in_flight,
)
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.formulations.programs import END, LAYER, ONE, SYNC
from tests.oracle import brute_force, plain
from tests.oracle.instances import OVERLAPPING, make_instance

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result

SEEDS = range(500, 500 + int(os.environ.get("HETOPT_FREE_INSTANCES", "60")))


def draw(rng: Random) -> tuple[PipelineTimes, list[int]]:
    """A pipeline, and how many micro-batches fit on each stage."""
    p, q = rng.randint(1, 4), rng.randint(1, 5)
    forward = tuple(rng.randint(0, 9) for _ in range(p))
    transfer = tuple(rng.choice((0, 1, 4, 12)) for _ in range(p - 1))
    times = PipelineTimes(
        schedule="auto",
        microbatches=q,
        forward_ns=forward,
        backward_ns=tuple(f + rng.randint(0, 3) for f in forward),
        transfer_ns=transfer,
        occupancy_ns=tuple(rng.randint(0, kappa) for kappa in transfer),
        sync_ns=(0,) * p,
        warmups=(1,) * p,
    )
    return times, [rng.randint(0 if rng.random() < 0.1 else 1, q) for _ in range(p)]


@pytest.mark.parametrize(
    ("usable", "base", "each", "fit"),
    [(10, 3, 2, 3), (10, 3, 1, 4), (10, 11, 2, 0), (10, 10, 0, 4), (10, 11, 0, 0)],
)
def test_most_in_flight(usable: int, base: int, each: int, fit: int) -> None:
    assert most_in_flight(usable, base, each, 4) == fit


def by_trial(times: PipelineTimes, most: list[int]) -> tuple[int, ...] | None:
    """The best of all vectors of steps up to 8, and of gpipe's."""
    p, q = times.stages, times.microbatches
    vectors = [(q,) * p]
    for steps in product(range(9), repeat=p - 1):
        vectors.append(tuple(1 + sum(steps[i:]) for i in range(p)))
    fitting = [
        counts
        for counts in vectors
        if all(min(w, q) <= room for w, room in zip(counts, most, strict=True))
    ]

    def rank(counts: tuple[int, ...]) -> tuple[object, ...]:
        return (value_of(replace(times, warmups=counts)), sum(counts), counts)

    return min(fitting, key=rank, default=None)


@pytest.mark.parametrize("seed", range(60))
def test_the_best_counts_of_one_plan(seed: int) -> None:
    rng = Random(seed)
    for _ in range(4):
        times, most = draw(rng)
        # Kappa is up to 12 times tau: no more steps than tried are worth taking.
        longest = max(times.round_trip_ns + times.occupancy_ns)
        if any(2 * kappa > 7 * longest for kappa in times.transfer_ns):
            continue
        assert free_warmups(times, most) == by_trial(times, most)


def test_least_counts_grow_with_the_boundary() -> None:
    times = PipelineTimes(
        schedule="auto",
        microbatches=8,
        forward_ns=(5, 5, 5),
        backward_ns=(5, 5, 5),
        transfer_ns=(3, 12),
        occupancy_ns=(0, 0),
        sync_ns=(0, 0, 0),
        warmups=(1, 1, 1),
    )
    # 44 is four lambdas and 4, so that tau counts again; then 26, two and 6.
    assert least_warmups(times, 10 * PERIOD_SCALE) == (7, 5, 1)
    assert least_warmups(times, 60 * PERIOD_SCALE) == (1, 1, 1)


def test_room_for_micro_batches() -> None:
    assert most_in_flight(100, 40, 20, 8) == 3
    assert most_in_flight(100, 40, 20, 2) == 2
    assert most_in_flight(100, 140, 20, 2) == 0
    assert most_in_flight(100, 100, 0, 5) == 5


def test_all_forwards_first_has_no_steady_state() -> None:
    times = PipelineTimes(
        schedule="auto",
        microbatches=3,
        forward_ns=(4, 2),
        backward_ns=(5, 9),
        transfer_ns=(1,),
        occupancy_ns=(1,),
        sync_ns=(0, 0),
        warmups=(4, 3),
    )
    as_gpipe = replace(times, schedule="gpipe")
    assert closed_form_ns(times) == closed_form_ns(as_gpipe)
    alternating = replace(times, warmups=(3, 2))
    assert closed_form_ns(alternating) == closed_form_ns(
        replace(alternating, schedule="1f1b")
    )


# --- the optimum ---------------------------------------------------------------------


def optimum(
    problem: Problem,
    costs: CostTable,
    schedule: ScheduleName,
    top: int = 1,
    solver: str = "dp",
) -> Result:
    training = replace(problem.training, schedule=schedule)
    problem = replace(problem, training=training)
    digest = problem_digest(problem)
    return load(solver)(
        Request(
            problem=problem,
            table=replace(
                costs,
                schedule=schedule,
                warmup_epsilon=training.epsilon,
                problem_digest=digest,
            ),
            params=RaceParams(jobs=0, top=top),
        )
    )


@pytest.mark.quick_seeds(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_same_plan_as_brute_force_and_no_worse_than_any_schedule(seed: int) -> None:
    instance = make_instance(seed, schedule="auto")
    problem, costs = instance.problem, instance.table
    top = 3 if seed % 4 == 0 else 1
    expected = brute_force.solve(problem, costs).shapes[:top]
    for solver in ("cp-sat", "dp"):
        result = optimum(problem, costs, "auto", top, solver)
        found = [] if result.best is None else [result.best, *result.alternatives]
        assert result.status == ("optimal" if expected else "infeasible")
        assert [other.plan for other in found] == [
            brute_force.to_plan(problem, costs, other) for other in expected
        ]
    data = json.loads(json.dumps(result.to_json()))
    assert check_result(problem, costs, data) == []
    for schedule in OVERLAPPING:
        named = optimum(problem, costs, schedule).best
        if named is not None:
            # Both are least up to the rounding of lambda.
            slack = named.plan.pipeline.microbatches / PERIOD_SCALE * 1e-9
            assert result.best is not None
            assert result.best.closed_form_s <= named.closed_form_s + slack


#: Two layers each, embedding and head at the ends; the first stage holds four
#: micro-batches beside its three units, and not five.
UNITS, ROOM = (3, 2, 3), 20 + 3 * 100 + 5 + 4 * 3 * 20


def tight(schedule: ScheduleName) -> tuple[Problem, CostTable]:
    problem = plain.problem(
        clusters=(plain.cluster("a", 2, 4, memory_bytes=ROOM),),
        training=replace(plain.TRAINING, schedule=schedule),
        pins=Pins(microbatches=Domain(allowed=frozenset({8})), units=UNITS),
    )
    return problem, plain.table(
        problem, (ONE,), transfer_ns=600, activation_bytes=20, usable_bytes=(ROOM,)
    )


def test_what_memory_leaves_between_two_schedules() -> None:
    """One warm-up more than 1f1b on the first boundary, one less than eager there."""
    problem, costs = tight("auto")
    best = optimum(problem, costs, "auto").best
    assert best is not None
    assert [stage.warmup for stage in best.plan.pipeline.stages] == [4, 2, 1]
    # The window over the first two stages, in two micro-batches.
    fill = 3 * 2 * LAYER + 2 * END + 2 * 2 * 600 + SYNC
    window = 2 * 2 * LAYER + END + 2 * 600
    assert best.closed_form_s == pytest.approx((fill + 7 * window / 2) * 1e-9)
    for schedule in OVERLAPPING:
        named = optimum(*tight(schedule), schedule).best
        if schedule in ("1f1b", "virtual-1f1b"):
            assert named is not None
            assert named.closed_form_s > 1.02 * best.closed_form_s
        else:
            assert named is None


def test_check_takes_other_counts_than_the_best() -> None:
    problem, costs = tight("auto")
    result = optimum(problem, costs, "auto")
    assert result.best is not None

    def checked(*counts: int) -> list[str]:
        plan = result.best.plan if result.best else None
        assert plan is not None
        stages = tuple(
            replace(stage, warmup=count)
            for stage, count in zip(plan.pipeline.stages, counts, strict=True)
        )
        pipeline = replace(plan.pipeline, stages=stages)
        check_plan(problem, costs, replace(plan, pipelines=(pipeline,)))
        return []

    assert checked(4, 3, 1) == checked(3, 2, 1) == checked(4, 4, 2) == []
    with pytest.raises(CheckError, match="memory"):
        checked(5, 3, 1)
    with pytest.raises(CheckError, match="warmup 3, more than 2 before it"):
        checked(2, 3, 1)


@pytest.mark.parametrize("solver", ["milp", "miqp-scip", "uniap"])
def test_solvers_that_cannot_choose_say_so(solver: str) -> None:
    problem, costs = tight("auto")
    with pytest.raises(InputError, match=r"cannot choose warm-up counts .*use dp or"):
        load(solver)(Request(problem=problem, table=costs, params=RaceParams(jobs=0)))


def test_auto_takes_one_that_can() -> None:
    problem, costs = tight("auto")
    result = optimum(problem, costs, "auto", solver="auto")
    assert result.solver in ("cp-sat", "dp")
    assert result.best == optimum(problem, costs, "auto").best
