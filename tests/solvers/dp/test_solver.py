"""The dynamic program against brute force, and its manners."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.base.deadline import Deadline
from hetopt.cost.build import build_table
from hetopt.formulations.chain import Chain
from hetopt.formulations.program import ProgramData
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.pricing.price import pipeline_times
from hetopt.problem.catalogue import problem_files
from hetopt.problem.reading import read_problem
from hetopt.problem.training.choices import ScheduleName
from hetopt.problem.training.principles import PRUNED, Principles
from hetopt.schedule.closed_form import closed_form_ns
from hetopt.solvers.decisions.assembly import plan_of, value_of
from hetopt.solvers.dp.solver import DpEngine
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.race.engine import EngineRun
from hetopt.solvers.request import Request
from tests.formulations.programs import data_of, table
from tests.oracle import brute_force
from tests.oracle.instances import ONE_CHUNK, Instance, make_instance, make_slow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.solvers.race.engine import Answer

#: Every fifth has the same schedule; three in ten are cut at blocks.
SEEDS = range(200)
#: More ticks than any plan of a generated table takes.
ENOUGH = 10**12 * PERIOD_SCALE
SPACES = tuple(
    Principles.relaxing(names)
    for names in (
        ["p4"],
        ["p4-falling-tp"],
        ["p3"],
        ["p3", "p4"],
        ["p3", "p4-falling-tp"],
    )
)
#: Where relaxing p4, p3 or both pays, the order of tp matters, or nothing else fits.
PAYING = (6, 79, 94, 123, 319, 3, 23, 8, 105, 302, 4, 135)


@pytest.fixture(scope="module")
def engine() -> DpEngine:
    return DpEngine(0)


def settle(engine: DpEngine, data: ProgramData, **options: Any) -> Answer:
    return engine.settle(data, EngineRun(**options))


def value(decision: Decision, costs: CostTable) -> int:
    return value_of(pipeline_times(plan_of(decision, costs, ""), costs))


def programs(
    instance: Instance, space: Principles = PRUNED
) -> Iterator[tuple[ProgramData, brute_force.Found | None]]:
    """Every (p, q), neither narrowed nor refuted, with its best plan."""
    problem, costs = instance.problem, instance.table
    answer = brute_force.solve(problem, costs, space)
    length = Chain.of(costs).length
    for part in costs.slices:
        for p in problem.stage_counts:
            if p <= length:
                q = part.microbatches
                data = data_of(costs, p, q, problem.pins, cutoff=ENOUGH)
                found = answer.programs.get((p, q))
                yield replace(data, principles=space), found


def check_program(
    engine: DpEngine,
    instance: Instance,
    data: ProgramData,
    best: brute_force.Found | None,
) -> None:
    costs = instance.table
    answer = settle(engine, data)
    if best is None:
        assert (answer.verdict, answer.decision) == ("infeasible", None)
        assert answer.bound == ENOUGH + 1
        return
    assert answer.verdict == "optimal"
    assert answer.decision is not None
    assert value(answer.decision, costs) == answer.bound
    plan = brute_force.to_plan(instance.problem, costs, best)
    least = value_of(pipeline_times(plan, costs))
    # Brute force rounds lambda up to a whole ns, so of two plans it may take the other.
    assert answer.bound <= least
    q = data.part.microbatches
    assert answer.bound >= least - (q - 1) * PERIOD_SCALE
    within = replace(data, cutoff=answer.bound)
    assert settle(engine, within).bound == answer.bound
    below = settle(engine, replace(data, cutoff=answer.bound - 1))
    assert (below.verdict, below.bound) == ("infeasible", answer.bound)
    first = engine.settle_tie(within, answer.bound, EngineRun())
    assert first is not None
    if answer.bound == least:
        assert plan_of(first, costs, plan.table_digest) == plan
    else:
        assert value(first, costs) == answer.bound


@pytest.mark.parametrize("seed", SEEDS)
def test_every_program_by_itself(engine: DpEngine, seed: int) -> None:
    """No bound of the race narrows a program: all is the dynamic program's work."""
    instance = make_instance(seed)
    for data, best in programs(instance):
        check_program(engine, instance, data, best)


@pytest.mark.parametrize(
    ("seed", "space"),
    [(seed, SPACES[seed % 5]) for seed in range(800, 840)]
    + [(seed, space) for seed in PAYING for space in SPACES],
)
def test_every_program_of_a_wide_space(
    engine: DpEngine, seed: int, space: Principles
) -> None:
    instance = make_instance(seed, widest=True)
    for data, best in programs(instance, space):
        check_program(engine, instance, data, best)


@pytest.mark.quick_seeds(4)
@pytest.mark.parametrize("seed", range(100, 148))
def test_every_program_with_slow_links(engine: DpEngine, seed: int) -> None:
    """Under h-1f1b: lambda_0 is that of a link, or is known by the cutoff alone."""
    instance = make_slow(seed)
    for data, best in programs(instance):
        check_program(engine, instance, data, best)


@pytest.mark.quick_seeds(2)
@pytest.mark.parametrize("seed", range(200, 220))
def test_every_program_of_a_wide_space_with_slow_links(
    engine: DpEngine, seed: int
) -> None:
    instance = make_slow(seed, widest=True)
    for data, best in programs(instance, SPACES[seed // 4 % 5]):
        check_program(engine, instance, data, best)


@pytest.mark.parametrize("seed", SEEDS[1::9])
def test_prices_of_devices_bound_the_pruned_space(
    engine: DpEngine, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where there are more clusters than subsets can be listed of."""
    monkeypatch.setattr("hetopt.solvers.arrays.building._MOST_STEPS", 0)
    instance = make_instance(seed)
    for data, best in programs(instance):
        check_program(engine, instance, data, best)


@pytest.mark.parametrize("seed", SEEDS[2::9])
def test_shapes_one_after_the_other(engine: DpEngine, seed: int) -> None:
    """With the best shapes ruled out the next one is found, until there is none."""
    instance = make_instance(seed)
    problem, costs = instance.problem, instance.table
    shapes = brute_force.solve(problem, costs).shapes
    by_program: dict[tuple[int, int], list[brute_force.Found]] = {}
    for found in shapes:
        by_program.setdefault(found.shape[:2], []).append(found)
    for (p, q), expected in by_program.items():
        data = data_of(costs, p, q, problem.pins, cutoff=ENOUGH)
        excluded: list[Decision] = []
        for found in expected[:6]:
            answer = settle(engine, data, excluded=excluded)
            assert answer.decision is not None
            plan = brute_force.to_plan(problem, costs, found)
            exact = closed_form_ns(pipeline_times(plan, costs))
            assert answer.bound / PERIOD_SCALE == pytest.approx(float(exact), abs=q)
            assert answer.decision.shape not in {other.shape for other in excluded}
            excluded.append(answer.decision)
        if len(expected) <= 6:
            assert settle(engine, data, excluded=excluded).verdict == "infeasible"


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ONE_CHUNK)
def test_same_plan_and_bound_as_cp_sat(schedule: ScheduleName) -> None:
    problem = read_problem(str(problem_files()["hetauto-exp1"]))
    training = replace(problem.training, schedule=schedule)
    problem = replace(problem, training=training)
    costs = build_table(problem)
    ours, theirs = (
        load(solver)(Request(problem=problem, table=costs, params=RaceParams(jobs=0)))
        for solver in ("dp", "cp-sat")
    )
    assert ours.best == theirs.best
    assert ours.lower_bound_s == theirs.lower_bound_s


def test_stops_when_told_to_with_a_valid_bound(engine: DpEngine) -> None:
    data = replace(data_of(table(), 4, 8), objective_min=7)
    whole = settle(engine, data)
    told = settle(engine, data, stop=lambda: True)
    late = settle(engine, data, deadline=Deadline.after(0.0))
    assert whole.verdict == "optimal"
    for answer in (told, late):
        assert answer.verdict == "stopped"
        assert 7 <= answer.bound <= whole.bound


def test_every_better_plan_is_reported(engine: DpEngine) -> None:
    costs = table()
    data = data_of(costs, 4, 8)
    found: list[Decision] = []
    answer = settle(engine, data, found=found.append)
    values = [value(decision, costs) for decision in found]
    assert values == sorted(values, reverse=True)
    assert found[-1] == answer.decision


def test_pins_on_clusters_that_offer_nothing(engine: DpEngine) -> None:
    """A cluster without a strategy can be asked for, but not used."""
    for seed in SEEDS:
        instance = make_instance(seed, pinned=False, clusters=2)
        for data, best in programs(instance):
            if best is None or len(set(best.shape[2])) > 1:
                continue
            (used,) = set(best.shape[2])
            other = 1 - used
            part = data.part
            empty = [
                cluster if j == used else _without_strategies(cluster)
                for j, cluster in enumerate(part.clusters)
            ]
            alone = replace(data, part=replace(part, clusters=tuple(empty)))
            assert settle(engine, alone).verdict == "optimal"
            names = (data.names[used], data.names[other])
            pinned = replace(alone, pins=replace(data.pins, order=names))
            assert settle(engine, pinned).verdict == "infeasible"
            return
    pytest.fail("no instance with a plan on one cluster")


def _without_strategies(cluster: ClusterTable) -> ClusterTable:
    none = {name: column[:0] for name, column in cluster.columns().items()}
    return replace(cluster, strategies=(), **none)
