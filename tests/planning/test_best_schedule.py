"""The best plan over all schedules is the best of what each has alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

import hetopt
from hetopt.base.deadline import Deadline
from hetopt.check import check_result
from hetopt.cost.folding import folded
from hetopt.errors import InputError
from hetopt.planning.best_schedule import best_schedule
from hetopt.planning.plan import search
from hetopt.planning.schedule_variants import ScheduleVariant, schedule_variants
from hetopt.problem.digest import problem_digest
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import FOLDED, INTERLEAVED, SCHEDULES
from hetopt.problem.training.pins import Pins
from hetopt.results.per_schedule import BEST, USUAL_CHUNKS
from hetopt.results.result import Result
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.cli.conftest import SMALL
from tests.oracle import brute_force
from tests.oracle.instances import ONE_CHUNK, make_instance, with_weights

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.planning.best_schedule import BestSchedule
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.solvers.request import Solve

    #: A schedule and its epsilon.
    Variant = tuple[ScheduleName, float | None]

SOLVE = partial(search, solver="dp", objective="closed")


@pytest.fixture
def request_of(monkeypatch: pytest.MonkeyPatch) -> RequestOf:
    """Return what asks for the best plan of a drawn instance."""
    return RequestOf(monkeypatch)


class RequestOf:
    """Requests on drawn tables: no cost model made them, nor could make another."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, seed: int) -> Request:
        instance = make_instance(seed)

        def table_of(problem: Problem) -> CostTable:
            if problem.training.chunks > 1:
                raise InputError("the tables drawn are of whole models", field="chunks")
            return under(problem, instance.table)

        self._monkeypatch.setattr("hetopt.planning.best_schedule.build_table", table_of)
        return Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0),
        )


def under(problem: Problem, table: CostTable) -> CostTable:
    """Return a table under the schedule of a problem."""
    schedule = problem.training.schedule
    table = replace(
        table,
        schedule=schedule,
        warmup_epsilon=problem.training.epsilon,
        problem_digest=problem_digest(problem),
    )
    if rule_of(schedule).folded:
        return folded(with_weights(table))
    return with_weights(table) if rule_of(schedule).splits else table


def optima(request: Request) -> dict[Variant, float]:
    """Return the least closed form of each variant that has a plan, by all plans."""
    found: dict[Variant, float] = {}
    for variant in schedule_variants(request.problem, ()):
        try:
            problem = variant.of(request.problem)
            table = under(problem, request.table)
        except InputError:
            continue
        answer = brute_force.solve(problem, table)
        if answer.shapes:
            value = float(answer.shapes[0].closed_form_ns) * 1e-9
            found[variant.schedule, variant.warmup_epsilon] = value
    return found


def ensure_true(found: BestSchedule, known: dict[Variant, float]) -> None:
    """Fail if a claim is untrue, or does not survive being written and read."""
    result = found.result
    data = result.to_json()
    assert check_result(found.problem, found.table, data) == []
    assert Result.from_json(data).to_json() == data
    assert {each.schedule for each in result.schedules} == set(SCHEDULES)
    for each in result.schedules:
        variant = each.schedule, each.warmup_epsilon
        assert each.counts or variant not in known
        if each.lower_bound_s is not None and variant in known:
            assert each.lower_bound_s <= known[variant] * (1 + 1e-9)
    if known and result.lower_bound_s is not None:
        assert result.lower_bound_s <= min(known.values()) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_it_is_the_best_of_all_plans(seed: int, request_of: RequestOf) -> None:
    request = request_of(seed)
    known = optima(request)
    found = best_schedule(request, SOLVE, solver="dp")
    ensure_true(found, known)
    if not known:
        assert (found.result.status, found.result.best) == ("infeasible", None)
        return
    assert found.result.status == "optimal"
    assert found.result.best is not None
    assert found.result.best.closed_form_s == pytest.approx(
        min(known.values()), rel=1e-6
    )
    assert found.result.best.plan.schedule == found.problem.training.schedule
    assert found.result.best.plan.warmup_epsilon == found.problem.training.epsilon
    for each in found.result.schedules:
        known_status: tuple[str, ...] = ("optimal", "refuted", "infeasible")
        if each.schedule in FOLDED and each.reason is not None:
            cannot = (
                "training.schedule: the schedule folds the model in two",
                "pin.units: ",
            )
            assert each.reason.startswith(cannot)
            known_status = ("passed-over",)
        assert each.status in (known_status if each.chunks == 1 else ("passed-over",))


@pytest.mark.parametrize("seed", range(10))
def test_a_search_that_is_cut_off_has_a_true_bound(
    seed: int, request_of: RequestOf
) -> None:
    request = request_of(seed)
    known = optima(request)
    late = replace(request, deadline=Deadline.after(1e-6))
    found = best_schedule(late, SOLVE, solver="dp")
    ensure_true(found, known)
    if found.result.best is not None:
        assert found.result.gap is not None


@pytest.mark.parametrize("seed", range(10))
def test_an_interrupted_search_ends_with_its_plan_and_gap(
    seed: int, request_of: RequestOf
) -> None:
    request = request_of(seed)

    def solve(request: Request) -> Result:
        return replace(SOLVE(request), interrupted=True)

    found = best_schedule(request, solve, solver="dp")
    assert found.result.interrupted
    ensure_true(found, optima(request))
    first, *others = found.result.schedules
    assert first.schedule == request.problem.training.schedule
    for each in others:
        assert each.reason == "not searched: it was stopped before"
        assert each.lower_bound_s is not None
    assert len(others) == len(schedule_variants(request.problem)) - 1
    if found.result.best is not None:
        assert found.result.gap is not None


def test_what_was_open_is_searched_again_with_the_time_left(
    request_of: RequestOf,
) -> None:
    request = replace(request_of(3), deadline=Deadline.after(3600.0))
    training = request.problem.training
    own: Variant = training.schedule, training.epsilon
    asked: list[tuple[Variant, float | None]] = []

    def solve(request: Request) -> Result:
        result = SOLVE(request)
        known = [variant for variant, _ in asked]
        training = request.problem.training
        variant = training.schedule, training.epsilon
        asked.append((variant, request.cutoff_s))
        if variant in known or variant != own:
            return result
        return replace(result, status="feasible", lower_bound_s=0.0, gap=1.0)

    found = best_schedule(request, solve, solver="dp")
    assert asked[0] == (own, None)
    assert [variant for variant, _ in asked].count(own) == 2
    assert asked[-1][0] == own
    assert asked[-1][1] is not None
    assert found.result.status == "optimal"
    ensure_true(found, optima(request))


def test_of_equals_the_plan_of_the_problems_own_schedule_is_reported() -> None:
    problem = read_problem_text(SMALL)
    variants = schedule_variants(problem)
    assert variants[0] == ScheduleVariant(schedule=problem.training.schedule)
    names = [each.schedule for each in variants if each.chunks == 1]
    assert sorted(names) == sorted((*ONE_CHUNK, *FOLDED, *["h-1f1b"] * 2))
    assert tuple(each.chunks for each in variants if each.chunks > 1) == USUAL_CHUNKS
    own = schedule_variants(problem.under("interleaved-1f1b", 3), (2, 4))
    assert own[0] == ScheduleVariant(schedule="interleaved-1f1b", chunks=3)
    assert [each.chunks for each in own if each.chunks > 1] == [3, 2, 4]
    one = replace(problem, clusters=problem.clusters[:1])
    for name in ("gpipe", "1f1b"):
        training = replace(one.training, schedule=name)
        result = hetopt.plan(
            replace(one, training=training), schedule=BEST, solver="dp", jobs=1
        )
        assert result.best is not None
        if len(result.best.plan.pipeline.stages) == 1:
            assert result.best.plan.schedule == name


def test_every_usual_epsilon_is_tried_unless_the_problem_chooses_one() -> None:
    def tried(problem: Problem) -> list[float | None]:
        variants = schedule_variants(problem)
        return [x.warmup_epsilon for x in variants if x.schedule == "h-1f1b"]

    problem = read_problem_text(SMALL)
    assert tried(problem) == tried(problem.under("h-1f1b")) == [0.05, 0.1, 0.01]
    chosen = problem.under("h-1f1b", epsilon=1 / 30)
    assert tried(chosen) == [1 / 30]
    assert schedule_variants(chosen)[0].warmup_epsilon == 1 / 30


def test_schedules_that_a_launcher_or_a_solver_lacks_are_passed_over() -> None:
    problem = read_problem_text(SMALL)
    request = Request(
        problem=problem, table=hetopt.build_table(problem), params=RaceParams(jobs=0)
    )
    solve: Solve = partial(search, solver="uniform", objective="closed")
    runs: tuple[ScheduleName, ...] = ("virtual-1f1b", "1f1b-blocking")
    found = best_schedule(request, solve, solver="uniform", launcher=("tractor", runs))
    reasons = {each.schedule: each.reason for each in found.result.schedules}
    assert reasons["gpipe"] == "tractor does not run it"
    assert "not support blocking transfers" in str(reasons["1f1b-blocking"])
    assert reasons["virtual-1f1b"] is None
    assert found.result.status == "feasible"
    assert check_result(found.problem, found.table, found.result.to_json()) == []
    with pytest.raises(InputError, match="not support blocking transfers"):
        best_schedule(request, solve, solver="uniform", launcher=("tractor", runs[1:]))
    with pytest.raises(InputError, match="best, but tractor runs none of virtual-1f1b"):
        best_schedule(request, solve, solver="uniform", launcher=("tractor", ()))


def test_plan_takes_a_schedule() -> None:
    problem = read_problem_text(SMALL)
    best = hetopt.plan(problem, schedule=BEST, solver="dp", jobs=1)
    alone = [
        hetopt.plan(each.of(problem), solver="dp", jobs=1).best
        for each in schedule_variants(problem, (2,))
    ]
    assert best.status == "optimal"
    assert best.best is not None
    assert best.best.closed_form_s == min(x.closed_form_s for x in alone if x)
    assert {x.plan.schedule for x in alone if x} == set(SCHEDULES)


def test_plan_takes_chunks() -> None:
    problem = read_problem_text(SMALL)
    best = hetopt.plan(problem, schedule=BEST, chunks=2, solver="dp", jobs=1)
    several = [each.chunks for each in best.schedules if each.chunks > 1]
    assert several == [2]
    with pytest.raises(InputError, match="chunks: is 1 with schedule interl"):
        hetopt.plan(problem, schedule=INTERLEAVED, solver="dp", jobs=1)
    with pytest.raises(InputError, match="expected one number, or the schedule best"):
        hetopt.plan(problem, schedule=INTERLEAVED, chunks=(2, 4), solver="dp", jobs=1)
    with pytest.raises(InputError, match="chunks: is 1, which all other schedules"):
        hetopt.plan(problem, schedule=BEST, chunks=1, solver="dp", jobs=1)
    undivided = problem.under(INTERLEAVED, 3)
    found = hetopt.plan(undivided, schedule=BEST, chunks=2, solver="dp", jobs=1)
    assert found.lower_bound_s == best.lower_bound_s
    assert found.schedules[0].status == "passed-over"
    pinned = replace(problem, pins=Pins(units=(3, 3)))
    with pytest.raises(InputError, match="sums to 6, expected a chunk's 4 units"):
        hetopt.plan(pinned, schedule=INTERLEAVED, chunks=2, solver="dp", jobs=1)


@pytest.mark.slow
def test_the_least_simulated_time_of_all() -> None:
    problem = read_problem_text(SMALL)
    least = partial(hetopt.plan, solver="dp", objective="simulated", jobs=1)
    best = least(problem, schedule=BEST)
    times = []
    for each in best.schedules:
        if each.status != "passed-over":
            chosen = problem.under(each.schedule, each.chunks, each.warmup_epsilon)
            alone = least(chosen)
            assert alone.best is not None
            times.append(alone.best.iteration_time_s)
    assert best.status == "optimal"
    assert best.best is not None
    assert best.best.iteration_time_s == pytest.approx(min(times), rel=1e-6)
    reasons = {each.schedule: each.reason for each in best.schedules}
    assert "1f1b-blocking has blocking transfers" in str(reasons["1f1b-blocking"])
