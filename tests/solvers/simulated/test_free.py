"""The least simulated time with warm-up counts as decisions, against brute force."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from random import Random
from typing import TYPE_CHECKING

import pytest

from hetopt.check import check_plan, check_result
from hetopt.cost.build import build_table
from hetopt.errors import CheckError, InputError
from hetopt.problem.catalogue import problem_files
from hetopt.problem.digest import problem_digest
from hetopt.problem.reading import read_problem, read_problem_text
from hetopt.schedule.closed_form import closed_form_ns
from hetopt.schedule.run import simulate
from hetopt.schedule.times import PipelineTimes
from hetopt.solvers.dp import solver as dp
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.solvers.simulated import state as simulated_state
from hetopt.solvers.simulated.solver import solve_simulated
from hetopt.solvers.simulated.warmups import best_warmups
from hetopt.solvers.simulated.worker import SimulatedSpec, SimulatedWorker
from tests.oracle import brute_force
from tests.oracle.brute_force import Answer
from tests.oracle.instances import OVERLAPPING, Instance, make_instance
from tests.solvers.simulated.test_solver import seconds

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.results.result import Result

#: More if the environment asks.
SEEDS = range(500, 500 + int(os.environ.get("HETOPT_SIMULATED_INSTANCES", "40")))

#: Six stages, on which 1F1B does not fit; the two numbers of units fit with one or two
#: micro-batches.
LITTLE_MEMORY = """\
model: {{layers: 6, hidden: 4096, heads: 32, ffn: 16384, vocab: 1000}}
clusters:
  - {{name: a, accelerator: A100-80GB, nodes: 6, devices_per_node: 1,
      memory: {memory}, inter_node: {{bandwidth: 1 Gbps, latency: 5 us}}}}
training: {{global_batch: 8, seq_len: 4096, schedule: free-1f1b, recompute: none}}
pin:
  {{microbatches: 8, stages: 6, units: [2, 1, 1, 1, 1, 2], clusters: {{a: {{cp: 1}}}}}}
"""

#: Plans an instance may have: each has up to thousands of vectors to be simulated.
MAX_PLANS = 300


@cache
def answered(seed: int) -> tuple[Instance, Answer]:
    instance = make_instance(seed, schedule="free-1f1b", most=MAX_PLANS)
    answer = brute_force.solve(instance.problem, instance.table, simulated=True)
    return instance, answer


def under(instance: Instance, schedule: ScheduleName) -> tuple[Problem, CostTable]:
    training = replace(instance.problem.training, schedule=schedule)
    problem = replace(instance.problem, training=training)
    table = replace(
        instance.table,
        schedule=schedule,
        warmup_epsilon=training.epsilon,
        problem_digest=problem_digest(problem),
    )
    return problem, table


@cache
def plan(seed: int, schedule: ScheduleName, top: int = 1) -> Result:
    problem, table = under(answered(seed)[0], schedule)
    return solve_simulated(
        Request(problem=problem, table=table, params=RaceParams(jobs=0, top=top)),
        solver="dp",
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_same_plan_or_same_infeasibility(seed: int) -> None:
    instance, answer = answered(seed)
    problem, table = instance.problem, instance.table
    top = 3 if seed % 5 == 0 else 1
    result = plan(seed, "free-1f1b", top)
    expected = answer.shapes[:top]
    found = [] if result.best is None else [result.best, *result.alternatives]
    assert result.status == ("optimal" if expected else "infeasible")
    assert [other.plan for other in found] == [
        brute_force.to_plan(problem, table, other) for other in expected
    ]
    for other, right in zip(found, expected, strict=True):
        assert other.iteration_time_s == pytest.approx(seconds(right), rel=1e-12)
    data = json.loads(json.dumps(result.to_json()))
    assert check_result(problem, table, data) == []
    for settlement in result.settlements:
        known = answer.programs.get((settlement.stages, settlement.microbatches))
        if settlement.how == "infeasible":
            assert known is None
        elif known is not None:
            assert settlement.bound_s is not None
            assert settlement.bound_s <= seconds(known) * (1 + 1e-12)


@pytest.mark.parametrize("seed", SEEDS[::2])
def test_no_worse_than_any_named_schedule(seed: int) -> None:
    best = plan(seed, "free-1f1b", 3 if seed % 5 == 0 else 1).best
    for schedule in OVERLAPPING:
        named = plan(seed, schedule).best
        if named is not None:
            assert best is not None
            assert best.iteration_time_s <= named.iteration_time_s


@pytest.mark.slow
def test_no_worse_on_exp1() -> None:
    problem = read_problem(str(problem_files()["hetauto-exp1"]))
    whole = Instance(seed=0, problem=problem, table=build_table(problem))
    params = RaceParams(jobs=0)
    free = under(whole, "free-1f1b")
    quick = solve_simulated(
        Request(problem=free[0], table=free[1], params=params), solver="dp"
    )
    assert quick.status == "optimal"
    assert quick.best is not None
    for schedule in OVERLAPPING:
        # Whatever is quicker would be found, and nothing is.
        below = solve_simulated(
            Request(
                problem=under(whole, schedule)[0],
                table=under(whole, schedule)[1],
                params=params,
                cutoff_s=quick.best.iteration_time_s * (1 - 1e-9),
            ),
            solver="dp",
        )
        assert "unsettled" not in below.settled
        assert below.reason == "no plan is within the cutoff"


@pytest.mark.parametrize(
    ("memory", "warmups"),
    [("8.0 GB", None), ("8.4 GB", (1, 1, 1, 1, 1, 1)), ("9 GB", (2, 2, 2, 1, 1, 1))],
)
def test_a_plan_is_found_where_1f1b_does_not_fit(
    memory: str, warmups: tuple[int, ...] | None
) -> None:
    problem = read_problem_text(LITTLE_MEMORY.format(memory=memory))
    named = problem.under("1f1b")
    params = RaceParams(jobs=0)
    request = Request(problem=named, table=build_table(named), params=params)
    assert dp.solve(request).status == "infeasible"
    result = solve_simulated(
        Request(problem=problem, table=build_table(problem), params=params),
        solver="dp",
    )
    if warmups is None:
        assert result.status == "infeasible"
        assert result.reason is not None
        assert "memory" in result.reason
        return
    assert result.status == "optimal"
    assert result.best is not None
    stages = result.best.plan.pipeline.stages
    assert tuple(stage.warmup for stage in stages) == warmups


def test_any_falling_counts_are_plans() -> None:
    problem = read_problem_text(LITTLE_MEMORY.format(memory="12 GB"))
    table = build_table(problem)
    result = solve_simulated(
        Request(problem=problem, table=table, params=RaceParams(jobs=0)), solver="dp"
    )
    assert result.best is not None
    plan = result.best.plan

    def check(*counts: int) -> None:
        stages = tuple(
            replace(stage, warmup=count)
            for stage, count in zip(plan.pipeline.stages, counts, strict=True)
        )
        pipeline = replace(plan.pipeline, stages=stages)
        check_plan(problem, table, replace(plan, pipelines=(pipeline,)))

    check(6, 5, 4, 3, 2, 1)
    check(3, 3, 3, 2, 2, 2)
    with pytest.raises(CheckError, match="memory"):
        check(8, 8, 8, 8, 8, 8)
    with pytest.raises(CheckError, match="warmup 3, more than 2 before it"):
        check(2, 3, 1, 1, 1, 1)


@pytest.mark.parametrize("solver", ["dp", "cp-sat", "milp", "uniform", "mcts"])
def test_closed_forms_are_not_minimised(solver: str) -> None:
    problem = read_problem_text(LITTLE_MEMORY.format(memory="12 GB"))
    request = Request(problem=problem, table=build_table(problem))
    with pytest.raises(InputError, match="leaves warm-up counts to hetopt plan"):
        load(solver)(request)


def test_all_forwards_first_has_no_steady_state() -> None:
    times = PipelineTimes(
        schedule="free-1f1b",
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


def draw(rng: Random) -> tuple[PipelineTimes, list[int]]:
    """A pipeline, and how many micro-batches fit on each stage."""
    p, q = rng.randint(1, 4), rng.randint(1, 6)
    forward = tuple(rng.randint(0, 9) for _ in range(p))
    transfer = tuple(rng.choice((0, 1, 4, 12)) for _ in range(p - 1))
    times = PipelineTimes(
        schedule="free-1f1b",
        microbatches=q,
        forward_ns=forward,
        backward_ns=tuple(rng.choice((f, 2 * f, rng.randint(0, 9))) for f in forward),
        transfer_ns=transfer,
        occupancy_ns=tuple(rng.randint(0, kappa) for kappa in transfer),
        sync_ns=tuple(rng.choice((0, 0, 7)) for _ in range(p)),
        warmups=(1,) * p,
    )
    return times, [rng.randint(1, q) for _ in range(p)]


def by_trial(times: PipelineTimes, most: list[int]) -> tuple[int, ...]:
    def rank(counts: tuple[int, ...]) -> tuple[object, ...]:
        time = simulate(replace(times, warmups=counts)).makespan_ns
        return (time, sum(counts), counts)

    vectors = product(*(range(1, cap + 1) for cap in most))
    return min((v for v in vectors if all(a >= b for a, b in pairwise(v))), key=rank)


@pytest.mark.parametrize("seed", range(40))
def test_the_best_counts_of_one_plan(seed: int) -> None:
    rng = Random(seed)
    for _ in range(10):
        times, most = draw(rng)
        expected = by_trial(times, most)
        least = simulate(replace(times, warmups=expected)).makespan_ns
        for limit in (least, 2 * least + 1, 10**15):
            assert best_warmups(times, most, limit) == expected
        assert best_warmups(times, most, least - 1) is None


def test_more_warm_ups_can_be_worse() -> None:
    """Room for two more, which put forwards before gradients that others wait for."""
    times = PipelineTimes(
        schedule="free-1f1b",
        microbatches=4,
        forward_ns=(9, 1),
        backward_ns=(1, 1),
        transfer_ns=(0,),
        occupancy_ns=(0,),
        sync_ns=(0, 0),
        warmups=(1, 1),
    )
    assert best_warmups(times, [4, 4], 10**9) == by_trial(times, [4, 4])


def test_too_many_vectors_are_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_state, "_MOST_VECTORS", 1)
    rng = Random(3)
    unknown = 0
    for _ in range(200):
        times, most = draw(rng)
        counts = best_warmups(times, most, 10**15)
        unknown += counts is None
        assert counts is None or counts == by_trial(times, most)
    assert unknown


def test_too_many_micro_batches_are_not_tried() -> None:
    times = PipelineTimes(
        schedule="free-1f1b",
        microbatches=5000,
        forward_ns=(2, 1),
        backward_ns=(1, 2),
        transfer_ns=(1,),
        occupancy_ns=(1,),
        sync_ns=(0, 0),
        warmups=(1, 1),
    )
    assert best_warmups(times, [5000, 5000], 10**9) is None


def test_quicker_passes_may_want_other_warmups_of_a_longer_closed_form() -> None:
    """So none is left out for a quicker one: its plan may come first in a tie."""
    slow = PipelineTimes(
        schedule="free-1f1b",
        microbatches=4,
        forward_ns=(9, 9, 8),
        backward_ns=(2, 6, 7),
        transfer_ns=(1, 1),
        occupancy_ns=(1, 1),
        sync_ns=(7, 15, 0),
        warmups=(1, 1, 1),
    )
    quick = replace(slow, backward_ns=(1, 6, 7))
    best = []
    for times in (slow, quick):
        warmups = best_warmups(times, [4] * 3, 10**9)
        assert warmups is not None
        best.append(replace(times, warmups=warmups))
    assert len({simulate(times).makespan_ns for times in best}) == 1
    assert closed_form_ns(best[0]) < closed_form_ns(best[1])
    instance, _ = answered(500)
    spec = SimulatedSpec(problem=instance.problem, table=instance.table, top=1)
    worker = SimulatedWorker(spec, None, lambda message: None)
    for part in instance.table.slices:
        assert worker.useful(part, 10**12, 4) is part
