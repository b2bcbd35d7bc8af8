from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetopt.check import check_plan
from hetopt.cost.table.cluster import ClusterTable
from hetopt.cost.table.slice import Layout, TableSlice
from hetopt.cost.table.table import CostTable
from hetopt.errors import InputError
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.pricing.price import pipeline_times, price
from hetopt.problem.training.choices import SCHEDULES, ScheduleName
from hetopt.schedule.closed_form import closed_form_ns
from hetopt.schedule.run import simulate
from hetopt.schedule.shares import SharedLinks
from tests.oracle import brute_force
from tests.oracle.instances import OTHERS, make_folded, make_instance, make_other

ONE = Strategy(dp=1, cp=1, tp=1)
TWO = Strategy(dp=1, cp=1, tp=2)


def cluster(scale: int, layouts: tuple[int, int]) -> ClusterTable:
    """Strategies ONE and TWO; kinds embedding, layer, head."""
    times = np.array([[10, 100, 30], [6, 60, 20]], dtype=np.int64) * scale
    return ClusterTable(
        strategies=(ONE, TWO),
        microbatch=np.array([1, 1]),
        devices=np.array([1, 2]),
        max_stages=np.array([4, 2]),
        layout=np.array(layouts),
        forward_ns=times,
        backward_ns=2 * times,
        state_bytes=np.array([[50, 500, 60], [25, 250, 30]]),
        activation_bytes=np.array([[1, 7, 2], [1, 4, 1]]),
        temporary_bytes=np.array([[3, 4, 90], [2, 3, 45]]),
        fixed_bytes=np.array([1000, 2000]),
        sync_ns=np.array([5, 6]) * scale,
        sync_unit_ns=np.array([[1, 10, 1], [2, 20, 2]]) * scale,
    )


def table(tied: bool = False) -> CostTable:
    layouts = tuple(
        Layout(cluster=c, dp=1, shards=shards) for c in (0, 1) for shards in (1, 2)
    )
    pairs = np.arange(16, dtype=np.int64).reshape(4, 4)
    transfer = np.stack([100 + pairs, 1000 + pairs])
    part = TableSlice(
        microbatches=4,
        clusters=(cluster(1, (0, 1)), cluster(10, (2, 3))),
        layouts=layouts,
        transfer_ns=transfer,
        occupancy_ns=transfer // 2,
        resharding=np.zeros_like(transfer),
        tied_ns=7000 + pairs if tied else None,
    )
    return CostTable(
        problem_digest="problem",
        schedule="virtual-1f1b",
        kinds=("embedding", "layer", "head"),
        cut_classes=("hidden", "ffn"),
        units=(0, 1, 1, 1, 2),
        cuts=(0, 1, 0, 0),
        body=(False, True, False),
        cluster_names=("slow", "fast"),
        cluster_devices=(4, 4),
        usable_bytes=(9000, 8000),
        sources=("modelled", "modelled"),
        slices=(replace(part, microbatches=2), part),
        tokens=1,
        model_flops=1.0,
        peak_flops=(1.0, 1.0),
    )


FIRST = Stage(cluster="fast", first_unit=0, end_unit=2, strategy=TWO, warmup=6)
LAST = Stage(cluster="slow", first_unit=2, end_unit=5, strategy=ONE, warmup=1)


def plan_of(*stages: Stage, microbatches: int = 4) -> Plan:
    return Plan(
        schedule="virtual-1f1b",
        pipelines=(Pipeline(microbatches=microbatches, stages=stages),),
        problem_digest="problem",
        table_digest="table",
    )


PLAN = plan_of(FIRST, LAST)


def test_times_of_a_plan() -> None:
    times = pipeline_times(PLAN, table())
    assert times.microbatches == 4
    assert times.schedule == "virtual-1f1b"
    # Embedding and a layer at 10 times (6, 60); two layers and the head.
    assert times.forward_ns == (660, 230)
    assert times.backward_ns == (1320, 460)
    # After unit 1: class ffn, from layout 3 to layout 0.
    assert times.transfer_ns == (1012,)
    assert times.occupancy_ns == (506,)
    assert times.sync_ns == (60 + 20 + 200, 5 + 20 + 1)
    assert times.warmups == (6, 1)


def test_price_of_a_plan() -> None:
    cost = price(PLAN, table())
    assert cost.times == pipeline_times(PLAN, table())
    assert cost.closed_form_s == pytest.approx(float(closed_form_ns(cost.times)) * 1e-9)
    simulation = simulate(cost.times)
    assert cost.iteration_time_s == pytest.approx(simulation.makespan_ns * 1e-9)
    assert cost.idle_share == simulation.idle_share
    # Four of the six warm-ups exist; the largest temporary counts once.
    assert cost.memory_bytes == (
        2000 + (25 + 250) + 4 * (1 + 4) + 3,
        1000 + (2 * 500 + 60) + 1 * (2 * 7 + 2) + 90,
    )
    assert cost.usable_bytes == (8000, 9000)
    assert cost.activation_bytes == (1 + 4, 2 * 7 + 2)


def test_recomputation_is_what_backward_takes_longer() -> None:
    known = table()
    full = replace(TWO, recompute="full")

    def also(costs: ClusterTable, longer: int, strategies: int = 3) -> ClusterTable:
        """Add FULL: backward takes ``longer`` per unit than TWO's."""
        rows = {
            name: np.concatenate([values, values[-1:]])
            for name in costs.__slots__
            if isinstance(values := getattr(costs, name), np.ndarray)
        }
        rows["backward_ns"][-1] += longer
        first = 3 - strategies
        rows = {name: values[first:] for name, values in rows.items()}
        return replace(costs, strategies=(ONE, TWO, full)[first:], **rows)

    def priced(longer: int, strategies: int = 3) -> tuple[int | None, ...]:
        part = known.at(4)
        clusters = (part.clusters[0], also(part.clusters[1], longer, strategies))
        slices = (replace(part, clusters=clusters),)
        plan = plan_of(replace(FIRST, strategy=full), LAST)
        return price(plan, replace(known, slices=slices)).recompute_ns

    assert price(PLAN, known).recompute_ns == (0, 0)
    assert priced(7) == (14, 0)
    # It is not known without the row of TWO, nor if that one takes longer.
    assert priced(7, strategies=1) == (None, 0)
    assert priced(-7) == (None, 0)


def test_tied_embeddings_add_to_both_ends() -> None:
    plain = pipeline_times(PLAN, table()).sync_ns
    tied = pipeline_times(PLAN, table(tied=True)).sync_ns
    assert tied == (plain[0] + 7012, plain[1] + 7012)


def test_tied_embeddings_in_the_middle_and_alone_add_nothing() -> None:
    middle = replace(LAST, first_unit=2, end_unit=3, warmup=2)
    three = plan_of(FIRST, middle, replace(LAST, first_unit=3))
    assert (
        pipeline_times(three, table(tied=True)).sync_ns[1]
        == pipeline_times(three, table()).sync_ns[1]
    )
    alone = plan_of(replace(LAST, first_unit=0))
    assert pipeline_times(alone, table(tied=True)).sync_ns == (5 + 32,)


def test_boundary_inside_a_cluster_reads_the_table_too() -> None:
    first = replace(LAST, first_unit=0, end_unit=3, warmup=2)
    times = pipeline_times(plan_of(first, replace(LAST, first_unit=3)), table())
    assert times.transfer_ns == (100,)


def test_warmups_are_taken_from_the_plan() -> None:
    fewer = plan_of(replace(FIRST, warmup=2), LAST)
    assert price(fewer, table()).memory_bytes[0] == 2000 + 275 + 2 * 5 + 3


def test_gpipe_has_its_own_closed_form() -> None:
    plan = replace(
        plan_of(replace(FIRST, warmup=4), replace(LAST, warmup=4)), schedule="gpipe"
    )
    expected = 660 + 1320 + 230 + 460 + 2 * 1012 + 3 * (660 + 1320) + 280
    assert price(plan, table()).closed_form_s == pytest.approx(expected * 1e-9)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (replace(PLAN, pipelines=PLAN.pipelines * 2), "pipelines: the plan has 2"),
        (plan_of(), "the pipeline has no stages"),
        (
            plan_of(FIRST, LAST, microbatches=3),
            r"microbatches: is 3, expected one of the latency table's, which are 2, 4",
        ),
        (
            plan_of(replace(FIRST, cluster="moon"), LAST),
            r"stages\.0\.cluster: cluster 'moon' is not in the latency table, which "
            "has slow, fast",
        ),
        (
            plan_of(FIRST, replace(LAST, strategy=Strategy(dp=4, cp=1, tp=1))),
            r"stages\.1: strategy \(dp,cp,tp\) \(4,1,1\) none of cluster 'slow' at 4",
        ),
        (
            plan_of(FIRST, replace(LAST, unit_strategies=(ONE, ONE, TWO))),
            "the latency table has no costs per unit",
        ),
        (plan_of(FIRST, replace(LAST, warmup=0)), "warmup is 0, expected at least 1"),
        (
            plan_of(replace(FIRST, warmup=1), replace(LAST, warmup=2)),
            "deadlocks: stage 1 warms up with 2 forwards, stage 0 before it with 1",
        ),
        (plan_of(FIRST, replace(LAST, first_unit=3)), "holds units 3 <= u < 5, expec"),
        (plan_of(FIRST, replace(LAST, first_unit=1)), "expected a first unit of 2"),
        (plan_of(FIRST, replace(LAST, end_unit=6)), "an end after it, at most 5"),
        (plan_of(FIRST, replace(LAST, end_unit=2)), "holds units 2 <= u < 2"),
        (plan_of(FIRST, replace(LAST, end_unit=4)), "end at unit 4, expected 5"),
    ],
)
def test_refuses(plan: Plan, message: str) -> None:
    for function in (price, pipeline_times):
        with pytest.raises(InputError, match=message):
            function(plan, table())


def with_shared_links(costs: CostTable) -> CostTable:
    """The table with uplinks and links slower than any boundary or stage alone."""
    count = len(costs.cluster_names)
    slices = []
    for part in costs.slices:
        slowest = max(int(own.round_trip_ns.max(initial=1)) for own in part.clusters)
        service = len(costs.units) * (slowest + int(part.occupancy_ns.max(initial=0)))
        shared = SharedLinks(
            uplink_ns=np.full(count, service), link_ns=np.full((count, count), service)
        )
        slices.append(replace(part, shared=shared))
    return replace(costs, slices=tuple(slices))


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_prices_are_those_of_the_checker(schedule: ScheduleName) -> None:
    seen = set()
    for seed in range(12):
        instance = (
            make_other(seed, schedule)
            if schedule in OTHERS
            else make_instance(seed, schedule=schedule)
        )
        problem, costs = instance.problem, with_shared_links(instance.table)
        shapes = brute_force.solve(problem, costs).shapes
        for found in shapes[:: max(1, len(shapes) // 4)]:
            plan = brute_force.to_plan(problem, costs, found)
            own, theirs = price(plan, costs), check_plan(problem, costs, plan)
            assert own.memory_bytes == theirs.memory_bytes
            for name in ("closed_form_s", "iteration_time_s"):
                expected = pytest.approx(getattr(theirs, name), rel=1e-12)
                assert getattr(own, name) == expected
            seen.add(found.shape[0])
    assert len(seen) > 1


@pytest.mark.parametrize("seed", [5, 6, 7, 10])
def test_a_pass_of_folded_stages_keeps_half_of_their_pairs(seed: int) -> None:
    instance = make_folded(seed)
    problem, costs = instance.problem, instance.table
    found = brute_force.solve(problem, costs).shapes[0]
    plan = brute_force.to_plan(problem, costs, found)
    rows = zip(plan.pipeline.stages, price(plan, costs).activation_bytes, strict=True)
    assert costs.pairs is not None
    for stage, one_pass in rows:
        own = costs.at(plan.pipeline.microbatches).clusters[
            costs.cluster_names.index(stage.cluster)
        ]
        bytes_ = own.activation_bytes[own.row(stage.strategy)]
        kinds = costs.units[stage.first_unit : stage.end_unit]
        pairs = [costs.pairs[kind - len(costs.kinds)] for kind in kinds]
        body = [
            pair for pair, kind in zip(pairs, kinds, strict=True) if costs.body[kind]
        ]
        assert one_pass == sum(int(bytes_[unit]) for pair in body for unit in pair) // 2
