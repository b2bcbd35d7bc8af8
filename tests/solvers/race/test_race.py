"""The race when workers die, when time is short, and when there is no plan."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from hetopt.base.deadline import Deadline
from hetopt.cost.table.ticks import TICK_S
from hetopt.errors import SolverError
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.problem.digest import problem_digest
from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from hetopt.problem.training.principles import PRUNED
from hetopt.solvers.cp_sat import solve
from hetopt.solvers.params import RaceParams
from hetopt.solvers.race import task_loop as task_loop
from hetopt.solvers.race.ledger import Ledger
from hetopt.solvers.race.outcome import result_of
from hetopt.solvers.race.race import race
from hetopt.solvers.request import Request
from tests.oracle import brute_force
from tests.oracle.instances import make_instance
from tests.solvers.engines import MARKS

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result
    from hetopt.solvers.progress import Progress
    from hetopt.solvers.race.messages import Found

#: An instance whose programs are not all refuted by bounds.
SEED = 18


def run(
    problem: Problem,
    table: CostTable,
    engine: str,
    *,
    jobs: int = 2,
    time_limit_s: float | None = None,
) -> Result:
    return race(
        Request(
            problem=problem,
            table=table,
            params=RaceParams(jobs=jobs),
            deadline=Deadline.after(time_limit_s),
        ),
        solver="test",
        engine=f"tests.solvers.engines:{engine}",
    )


def pinned(problem: Problem, stages: set[int]) -> Problem:
    """Leave few programs: every death costs the start of a worker."""
    pins = replace(
        problem.pins,
        stages=Domain(allowed=frozenset(stages)),
        microbatches=Domain(allowed=frozenset({2})),
    )
    return replace(problem, pins=pins)


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_its_task_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARKS, str(tmp_path))
    instance = make_instance(SEED)
    problem = pinned(instance.problem, {1, 2})
    table = replace(instance.table, problem_digest=problem_digest(problem))
    result = run(problem, table, "DiesOnce")
    assert list(tmp_path.iterdir()), "no worker died"
    best = brute_force.solve(problem, table).best
    assert best is not None
    assert result.status == "optimal"
    assert result.best is not None
    assert result.best.plan == brute_force.to_plan(problem, table, best)


@pytest.mark.slow
def test_a_program_that_keeps_killing_is_unsettled_and_never_refuted() -> None:
    instance = make_instance(SEED)
    problem = pinned(instance.problem, {2})
    result = run(problem, instance.table, "DiesOnTwoStages")
    assert result.best is None
    assert result.status == "unknown"
    assert result.settled.get("unsettled")
    assert "refuted-by-search" not in result.settled


def test_what_an_engine_raises_is_an_error() -> None:
    instance = make_instance(SEED)
    with pytest.raises(SolverError, match="no licence"):
        run(instance.problem, instance.table, "Raises", jobs=1)


def test_no_time_at_all_is_an_honest_answer() -> None:
    instance = make_instance(SEED)
    result = solve(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0),
            deadline=Deadline.after(0.0),
        )
    )
    assert result.status in ("unknown", "feasible")
    if result.best is not None:
        assert result.gap is not None
        assert result.lower_bound_s is not None
        assert result.lower_bound_s <= result.best.closed_form_s


def test_ctrl_c_returns_the_best_plan_so_far() -> None:
    instance = make_instance(SEED)
    seen: list[Progress] = []

    def interrupt(progress: Progress) -> None:
        if progress.incumbent_s is not None and not seen:
            seen.append(progress)
            raise KeyboardInterrupt

    result = solve(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0, on_progress=interrupt),
        )
    )
    assert seen
    assert result.best is not None
    assert result.gap is not None


def test_progress_only_gets_better() -> None:
    instance = make_instance(SEED)
    seen: list[Progress] = []
    solve(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0, on_progress=seen.append),
        )
    )
    assert seen[-1].settled == seen[-1].programs
    assert seen[-1].gap == pytest.approx(0.0, abs=1e-6)
    for before, after in pairwise(seen):
        assert after.settled >= before.settled
        if before.incumbent_s is not None:
            assert after.incumbent_s is not None
            assert after.incumbent_s <= before.incumbent_s


def test_a_cutoff_below_the_optimum_leaves_no_plan() -> None:
    instance = make_instance(SEED)
    best = brute_force.solve(instance.problem, instance.table).best
    assert best is not None
    result = solve(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0),
            cutoff_s=float(best.closed_form_ns) * 1e-9 * 0.99,
        )
    )
    assert result.best is None
    assert result.status == "unknown"
    assert result.reason == "no plan is within the cutoff"


def test_a_cutoff_says_nothing_of_what_was_left_unsettled() -> None:
    instance = make_instance(SEED)
    problem, table = instance.problem, instance.table
    ledger = Ledger(problem, table, top=1, limit=1)
    for program in ledger.programs.values():
        program.how = "unsettled"
    result = result_of(
        ledger, problem, table, solver="dp", principles=PRUNED, search_time_s=0.0
    )
    assert result.reason == "stopped before a plan was found"


def test_a_pin_in_the_way_is_named() -> None:
    instance = make_instance(SEED)
    names = instance.table.cluster_names
    pins = Pins(
        clusters={
            name: ClusterPins(stages=Domain(allowed=frozenset({0}))) for name in names
        }
    )
    result = solve(
        Request(
            problem=replace(instance.problem, pins=pins),
            table=instance.table,
            params=RaceParams(jobs=0),
        )
    )
    assert result.status == "infeasible"
    assert result.reason is not None
    assert result.reason.startswith("pin.clusters")


def test_every_better_plan_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise it tells only now and then, which may be between two plans.
    monkeypatch.setattr(task_loop, "_TURN_S", 1000.0)
    better: list[float] = []
    find = Ledger.find

    def watched(ledger: Ledger, found: Found) -> bool:
        taken = find(ledger, found)
        value = found.value / PERIOD_SCALE * TICK_S
        if taken and (not better or value < better[-1]):
            better.append(value)
        return taken

    monkeypatch.setattr(Ledger, "find", watched)
    told: list[float] = []

    def hear(progress: Progress) -> None:
        if progress.incumbent_s is not None:
            told.append(progress.incumbent_s)

    instance = make_instance(SEED)
    solve(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0, on_progress=hear),
        )
    )
    assert len(better) > 1
    assert list(dict.fromkeys(told)) == better
