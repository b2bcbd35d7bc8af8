"""The best plan over all schedules is the best of what each has alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import hetopt
from hetopt.base.deadline import Deadline
from hetopt.cost.folding import folded
from hetopt.errors import InputError
from hetopt.planning.asked import Search
from hetopt.problem.digest import problem_digest
from hetopt.problem.reading import read_problem, read_problem_text
from hetopt.problem.training.choices import FOLDED, INTERLEAVED, SCHEDULES
from hetopt.problem.training.pins import Pins
from hetopt.results.per_schedule import USUAL_CHUNKS
from hetopt.schedule.orders import FOLDS
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.race import race
from hetopt.solvers.request import Request
from hetopt.solvers.search.branchings.runnable import Launchable
from hetopt.solvers.search.branchings.schedules import (
    ScheduleVariant,
    run_by,
    schedule_variants,
)
from hetopt.solvers.search.over import Over
from hetopt.solvers.search.search import TreeSearch
from tests.cli.conftest import SMALL
from tests.oracle import brute_force
from tests.oracle.instances import ONE_CHUNK, make_instance, with_weights
from tests.search.asking import ensure_holds, request_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.results.result import Result
    from hetopt.solvers.request import Solve

    #: A schedule and its epsilon.
    Variant = tuple[ScheduleName, float | None]

DP = load("dp")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Request]:
    """Return what makes requests on drawn tables, which no cost model has made."""

    def request(seed: int) -> Request:
        instance = make_instance(seed)
        monkeypatch.setattr(
            "hetopt.cost.by_schedule.unplaced", partial(unplaced, table=instance.table)
        )
        return Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0),
        )

    return request


def unplaced(problem: Problem, table: CostTable) -> CostTable:
    """Return a table under the schedule of a problem, of the model's own units."""
    schedule = problem.training.schedule
    table = replace(
        table,
        schedule=schedule,
        warmup_epsilon=problem.training.epsilon,
        problem_digest=problem_digest(problem),
    )
    return with_weights(table) if rule_of(schedule).splits else table


def under(problem: Problem, table: CostTable) -> CostTable:
    """Return a table under the schedule of a problem."""
    table = unplaced(problem, table)
    return folded(table) if rule_of(table.schedule).folded else table


def best_of(
    request: Request,
    solve: Solve = DP,
    *,
    solver: str = "dp",
    launcher: Launchable | None = None,
) -> Result:
    """Return the best plan of all schedules that have one chunk."""
    variants = schedule_variants(request.problem, ())
    over = Over(schedules=variants, launcher=launcher)
    return TreeSearch(request, solve, over, solver=solver, objective="closed").run()


def optima(request: Request) -> dict[Variant, float]:
    """Return the least closed form of each variant that has a plan, by all plans.

    Without orders that repeat a building block, which are not compared by it.
    """
    found: dict[Variant, float] = {}
    for variant in schedule_variants(request.problem, ()):
        if FOLDS.get(variant.schedule):
            continue
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


def ensure_true(request: Request, result: Result, known: dict[Variant, float]) -> None:
    """Fail if a claim is untrue, or does not survive being written and read."""
    ensure_holds(request, result)
    schedules = {each.schedule for each in result.schedules}
    assert schedules == set(SCHEDULES) - {INTERLEAVED}
    for each in result.schedules:
        variant = each.schedule, each.warmup_epsilon
        if variant in known:
            assert each.status not in ("infeasible", "passed-over")
            assert (each.lower_bound_s or 0) <= known[variant] * (1 + 1e-9)
    if known and result.lower_bound_s is not None:
        assert result.lower_bound_s <= min(known.values()) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_it_is_the_best_of_all_plans(
    seed: int, drawn: Callable[[int], Request]
) -> None:
    request = drawn(seed)
    known = optima(request)
    result = best_of(request)
    ensure_true(request, result, known)
    if not known:
        assert (result.status, result.best) == ("infeasible", None)
        return
    assert result.status == "optimal"
    assert result.best is not None
    assert result.problem is not None
    assert result.best.closed_form_s == pytest.approx(min(known.values()), rel=1e-6)
    assert result.best.plan.schedule == result.problem.training.schedule
    assert result.best.plan.warmup_epsilon == result.problem.training.epsilon
    for each in result.schedules:
        if each.schedule in FOLDED and each.reason is not None:
            cannot = (
                "training.schedule: the schedule folds the model in two",
                "pin.units: ",
                "its closed form is too short to compare",
            )
            assert each.reason.startswith(cannot)
            assert each.status == "passed-over"
        else:
            assert each.status in ("optimal", "refuted", "infeasible")


@pytest.mark.parametrize("seed", range(10))
def test_a_search_that_is_cut_off_has_a_true_bound(
    seed: int, drawn: Callable[[int], Request]
) -> None:
    request = drawn(seed)
    late = replace(request, deadline=Deadline.after(1e-6))
    result = best_of(late)
    ensure_true(request, result, optima(request))
    assert result.lower_bound_s is not None or result.status == "infeasible"
    if result.best is not None:
        assert result.gap is not None


@pytest.mark.parametrize("seed", range(10))
def test_an_interrupted_search_ends_with_its_plan_and_gap(
    seed: int, drawn: Callable[[int], Request]
) -> None:
    request = drawn(seed)
    result = best_of(request, lambda each: replace(DP(each), interrupted=True))
    assert result.interrupted
    ensure_true(request, result, optima(request))
    first, *others = result.schedules
    assert first.schedule == request.problem.training.schedule
    assert len(others) == len(schedule_variants(request.problem, ())) - 1
    for each in others:
        if each.status == "unknown":
            assert each.reason == "not searched"
            assert each.lower_bound_s is not None
        else:
            assert each.status in ("refuted", "passed-over")
    if result.best is not None:
        assert result.gap is not None


def test_what_was_open_is_searched_again_with_the_time_left(
    drawn: Callable[[int], Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first plan gets half of the time: it is the cutoff of all others."""
    # As if each search took all its time.
    monkeypatch.setattr("hetopt.solvers.search.node._EARLY", 1.0)
    request = replace(drawn(3), deadline=Deadline.after(3600.0))
    training = request.problem.training
    own: Variant = training.schedule, training.epsilon
    asked: list[tuple[Variant, float | None]] = []

    def solve(request: Request) -> Result:
        result = DP(request)
        training = request.problem.training
        asked.append(((training.schedule, training.epsilon), request.cutoff_s))
        if len(asked) > 1:
            return result
        assert request.deadline.limit_s == pytest.approx(1800, rel=0.05)
        open_ = tuple(replace(x, how="unsettled") for x in result.settlements)
        return replace(
            result, status="feasible", lower_bound_s=0.0, gap=1.0, settlements=open_
        )

    result = best_of(request, solve)
    assert asked[0] == (own, None)
    again = [cutoff_s for variant, cutoff_s in asked[1:] if variant == own]
    assert len(again) == 1
    assert again[0] is not None
    assert result.status == "optimal"
    ensure_true(request, result, optima(request))


def test_no_schedule_is_searched_again_before_all_were_searched_once(
    drawn: Callable[[int], Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as searches raise no bound, as the first seconds often do not."""
    monkeypatch.setattr("hetopt.solvers.search.node._EARLY", 1.0)
    request = replace(drawn(3), deadline=Deadline.after(3600.0))
    asked: list[Variant] = []

    def solve(request: Request) -> Result:
        result, training = DP(request), request.problem.training
        variant: Variant = training.schedule, training.epsilon
        first = variant not in asked
        asked.append(variant)
        if not first:
            return result
        open_ = tuple(replace(x, how="unsettled") for x in result.settlements)
        return replace(
            result, status="feasible", lower_bound_s=0.0, gap=1.0, settlements=open_
        )

    result = best_of(request, solve)
    number = len(dict.fromkeys(asked))
    assert number > 5
    assert len(dict.fromkeys(asked[:number])) == number
    ensure_true(request, result, optima(request))


def test_bounds_of_one_schedule_are_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Schedules with the same costs are refuted together, by the widest of them."""
    request, run = request_of(read_problem("hetauto-exp1")), race._run
    searched = []

    def counted(request: Request, *given: Any, **named: Any) -> bool:
        searched.append(request.problem.training.schedule)
        return run(request, *given, **named)

    monkeypatch.setattr(race, "_run", counted)
    result = best_of(request)
    ensure_holds(request, result)
    assert result.status == "optimal"
    assert result.lower_bound_s is not None
    # The problem's own, those of the least device time, and one of those with its costs
    # whose bounds hold for all others.
    assert searched == ["virtual-1f1b", "zb-h1", "zb-v", "h-1f1b", "gpipe"]
    for each in result.schedules:
        if "1f1b" in each.schedule and each.schedule != "virtual-1f1b":
            assert (each.status, each.reason) == ("refuted", None)
            assert each.lower_bound_s is not None
            assert each.lower_bound_s >= result.lower_bound_s


@pytest.mark.parametrize("first", ["virtual-1f1b", "eager-1f1b"])
@pytest.mark.parametrize("order", [1, -1])
def test_plans_with_the_same_time_are_of_the_first_schedule(
    first: str, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever is searched first."""
    request = request_of(read_problem("hetauto-exp1"))
    names: tuple[ScheduleName, ...] = ("virtual-1f1b", "eager-1f1b")
    names = names[::order]
    over = Over(schedules=tuple(ScheduleVariant(schedule=each) for each in names))
    search = TreeSearch(request, DP, over, solver="dp", objective="closed")
    monkeypatch.setattr(
        search.root, "first", partial(min, key=lambda index: names[index] != first)
    )
    result = search.run()
    assert result.best is not None
    assert result.best.plan.schedule == names[0]
    ensure_holds(request, result)


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
            replace(one, training=training), schedule="auto", solver="dp", jobs=1
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


def test_schedules_that_a_launcher_or_a_solver_lacks_do_not_count() -> None:
    """The launcher's are passed over; the solver's are left to their device time."""
    runs: tuple[ScheduleName, ...] = ("virtual-1f1b", "1f1b-blocking")
    request, solve = request_of(read_problem_text(SMALL)), load("uniform")
    result = best_of(request, solve, solver="uniform", launcher=tractor(runs))
    known = {each.schedule: each for each in result.schedules}
    assert known["gpipe"].status == "passed-over"
    assert known["gpipe"].reason == "tractor does not run it"
    assert known["1f1b-blocking"].status == "unknown"
    assert known["virtual-1f1b"].reason is None
    assert result.status == "feasible"
    ensure_holds(request, result)
    with pytest.raises(InputError, match="not support blocking transfers"):
        best_of(request, solve, solver="uniform", launcher=tractor(runs[1:]))
    variants = schedule_variants(request.problem)
    with pytest.raises(InputError, match="auto, but tractor runs none of virtual-1f1b"):
        run_by(variants, "tractor", tractor(()).passed_over)
    asked = Search(problem=request.problem.under_any(), launcher="hetu")
    named = {each.schedule for each in asked.over()[1].schedules}
    assert named == {each.schedule for each in variants}


def tractor(runs: tuple[ScheduleName, ...]) -> Launchable:
    """Return a launcher that runs every plan of some schedules."""

    def passed_over(variant: ScheduleVariant) -> str | None:
        return None if variant.schedule in runs else "tractor does not run it"

    return Launchable(
        name="tractor",
        broken=lambda problem, plan: None,
        split=lambda problem, table, rule: [(problem, table)],
        passed_over=passed_over,
    )


def test_plan_takes_a_schedule() -> None:
    problem = read_problem_text(SMALL)
    best = hetopt.plan(problem, schedule="auto", solver="dp", jobs=1)
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
    best = hetopt.plan(problem, schedule="auto", chunks=2, solver="dp", jobs=1)
    several = [each.chunks for each in best.schedules if each.chunks > 1]
    assert several == [2]
    with pytest.raises(InputError, match="chunks: is 1 with schedule interl"):
        hetopt.plan(problem, schedule=INTERLEAVED, solver="dp", jobs=1)
    with pytest.raises(InputError, match="expected one number, or the schedule auto"):
        hetopt.plan(problem, schedule=INTERLEAVED, chunks=(2, 4), solver="dp", jobs=1)
    with pytest.raises(InputError, match="chunks: is 1, which all other schedules"):
        hetopt.plan(problem, schedule="auto", chunks=1, solver="dp", jobs=1)
    undivided = problem.under(INTERLEAVED, 3)
    found = hetopt.plan(undivided, schedule="auto", chunks=2, solver="dp", jobs=1)
    assert found.lower_bound_s == best.lower_bound_s
    assert found.schedules[0].status == "passed-over"
    pinned = replace(problem, pins=Pins(units=(3, 3)))
    with pytest.raises(InputError, match="sums to 6, expected a chunk's 4 units"):
        hetopt.plan(pinned, schedule=INTERLEAVED, chunks=2, solver="dp", jobs=1)


@pytest.mark.slow
def test_the_least_simulated_time_of_all() -> None:
    """It is proven under each schedule, and so over all."""
    problem = read_problem_text(SMALL)
    least = partial(hetopt.plan, solver="dp", objective="simulated", jobs=1)
    best = least(problem, schedule="auto")
    times = []
    for each in best.schedules:
        if each.status != "passed-over":
            alone = least(
                problem.under(each.schedule, each.chunks, each.warmup_epsilon)
            )
            if alone.best is not None:
                assert alone.status == "optimal"
                times.append(alone.best.iteration_time_s)
    assert best.best is not None
    assert best.best.iteration_time_s == pytest.approx(min(times), rel=1e-6)
    assert best.lower_bound_s
    assert best.lower_bound_s <= best.best.iteration_time_s
    assert best.status == "optimal"
