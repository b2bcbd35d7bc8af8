"""With hardly any time there is a plan, and no process where none is wanted."""

from __future__ import annotations

import multiprocessing.process
import time
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import yaml

from hetopt.base.deadline import Deadline, Stopped
from hetopt.check import check_result
from hetopt.cost.build import build_table
from hetopt.problem.reading import read_problem, read_problem_text
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.pools import opening
from hetopt.solvers.pools.opening import most_workers, worker_count
from hetopt.solvers.pools.process import InlinePool
from hetopt.solvers.race import first_plan as first
from hetopt.solvers.race import race
from hetopt.solvers.race.first_plan import first_plan
from hetopt.solvers.race.messages import NO_CUTOFF
from hetopt.solvers.request import Request
from hetopt.solvers.simulated.solver import solve_simulated
from tests.fuzz.generator import make_case
from tests.oracle.instances import make_instance

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.results.result import Result

SEEDS = range(24)


@pytest.mark.parametrize("seed", SEEDS)
def test_there_is_one_where_all_stages_may_be_alike(seed: int) -> None:
    instance = make_instance(seed, pinned=seed % 3 == 0)
    problem, table = instance.problem, instance.table
    proven: Result = load("amp")(Request(problem=problem, table=table))
    found = first_plan(problem, table)
    if proven.best is not None:
        assert found is not None


def test_it_is_not_looked_for_if_a_limit_refutes_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where plans are not found on the way: what stages hold depends on p."""

    def fail(*given: Any, **named: Any) -> NoReturn:
        raise AssertionError

    monkeypatch.setattr(race, "first_plan", fail)
    monkeypatch.setattr(race, "improve_early", fail)
    problem = read_problem("hetauto-exp1").under("zb-h1")
    request = Request(problem=problem, table=build_table(problem), cutoff_s=9.1)
    result = load("dp")(request)
    assert result.best is None
    assert set(result.settled) == {"refuted-by-bound"}
    assert result.lower_bound_s is not None
    assert result.lower_bound_s * (1 + 1e-9) >= 9.1


def test_it_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    for module in (race, first):
        monkeypatch.setattr(module, "first_plan", lambda *args, **_: calls.append(args))
    instance = make_instance(3, pinned=False)
    request = Request(
        problem=instance.problem,
        table=instance.table,
        params=RaceParams(jobs=0),
        deadline=Deadline.after(1e-9),
    )
    assert load("dp")(request).status == "unknown"
    assert len(calls) == 1


@pytest.mark.parametrize(
    "solver",
    [
        *("auto", "dp", "cp-sat", "milp", "mcts", "mcts-guided"),
        *("dfs", "uniform", "amp", "metis"),
    ],
)
def test_no_time_is_enough_for_a_plan(
    solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> NoReturn:
        msg = "a process was started"
        raise AssertionError(msg)

    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", refuse)
    instance = make_instance(3, pinned=False)
    problem, table = instance.problem, instance.table
    params = RaceParams(jobs=1)
    result: Result = load(solver)(
        Request(
            problem=problem, table=table, params=params, deadline=Deadline.after(1e-9)
        )
    )
    assert result.status == "feasible"
    assert check_result(problem, table, result.to_json()) == []
    assert result.lower_bound_s is not None
    assert result.lower_bound_s > 0


def test_no_time_is_enough_for_a_simulated_plan() -> None:
    instance = make_instance(3, pinned=False)
    problem, table = instance.problem, instance.table
    result = solve_simulated(
        Request(
            problem=problem,
            table=table,
            params=RaceParams(jobs=1),
            deadline=Deadline.after(1e-9),
        ),
        solver="auto",
    )
    assert result.status == "feasible"
    assert check_result(problem, table, result.to_json()) == []


def test_what_a_task_found_until_its_time_was_up_counts() -> None:
    """Tasks of this process hand their plans over even if the clock ends them."""

    def make(payload: Any, shared: Any, say: Callable[[Any], None]) -> Any:
        def run(task: Any) -> NoReturn:
            say("a plan")
            raise Stopped

        return run

    pool = InlinePool(make, None)
    pool.submit(1, "a task")
    with pytest.raises(Stopped):
        pool.collect(0.0)
    assert pool.unheard == ["a plan"]


def test_more_workers_than_pay_are_not_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opening, "cores", lambda: 2)
    assert most_workers() == 8
    assert worker_count(100_000) == 8
    assert worker_count(5) == 5
    assert worker_count(None) == 2


def test_a_plan_across_a_dead_link_is_none() -> None:
    """It is priced as too long; the one beside it is found instead."""
    text = """
name: dead-link
model: {layers: 2, hidden: 128, heads: 1, kv_heads: 1, ffn: 49152, vocab: 128256}
clusters:
  - {name: a, accelerator: H100, nodes: 1, devices_per_node: 1,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
  - {name: b, accelerator: H100, nodes: 1, devices_per_node: 1,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
links: {default: {bandwidth: 1 Mbps, latency: 1e5 s}}
training: {global_batch: 128, seq_len: 2048, schedule: 1f1b}
"""
    problem = read_problem_text(text)
    found = first_plan(problem, build_table(problem))
    assert found is not None
    assert found.value < NO_CUTOFF
    assert found.decision.stages == 1


def test_a_million_devices_that_fit_nothing_are_given_up() -> None:
    """Fuzz seed 690: the clock was asked only where there was a plan to price."""
    problem = read_problem_text(yaml.safe_dump(make_case(690).problem))
    table = build_table(problem)
    began = time.thread_time()
    assert first_plan(problem, table) is None
    assert time.thread_time() - began < 10


def test_the_one_cluster_with_memory_hosts_the_first_plan() -> None:
    """Fuzz seed 1: quicker clusters came first, whose devices hold no stage."""
    problem = read_problem_text(yaml.safe_dump(make_case(1).problem))
    found = first_plan(problem, build_table(problem))
    assert found is not None
    assert found.decision.order == (3,)


def test_more_clusters_than_units_host_none() -> None:
    """Under folded schedules a unit is two layers."""
    text = """
model: {layers: 2, hidden: 1024, heads: 4, ffn: 2048, vocab: 1000}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 1,
     inter_node: {bandwidth: 10 Gbps}}
  - {name: b, accelerator: A100-80GB, nodes: 1, devices_per_node: 1,
     inter_node: {bandwidth: 10 Gbps}}
links: {default: {bandwidth: 1 Gbps, latency: 1 ms}}
training: {global_batch: 4, seq_len: 2048, schedule: zb-v}
pin: {order: [a, b]}
"""
    problem = read_problem_text(text)
    assert first_plan(problem, build_table(problem)) is None
