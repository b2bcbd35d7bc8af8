"""Every constraint alone, met and broken; every claim of a result, true and false."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.check import check_plan, check_result
from hetopt.check.times import Times, closed_form, simulate, warmups
from hetopt.errors import CheckError, DigestError, InputError
from hetopt.plan import Stage, Strategy
from hetopt.pricing import price
from hetopt.problem.training import RECOMPUTE, ClusterPins, Domain, Pins
from hetopt.result import PricedPlan, Result, Settlement
from tests.oracle import brute_force, plain
from tests.oracle.instances import make_instance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.cost.table import CostTable
    from hetopt.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.problem.training import Recompute, ScheduleName

WIDE = Strategy(dp=2, cp=1, tp=2)
NARROW = Strategy(dp=2, cp=1, tp=1)


def stage(
    cluster: str,
    first: int,
    end: int,
    strategy: Strategy,
    warmup: int,
    *,
    last: bool = False,
) -> Stage:
    return Stage(
        cluster=cluster,
        first_unit=first,
        end_unit=end,
        strategy=strategy,
        warmup=warmup,
        resharding=None if last else "p2p",
    )


#: Two stages on a, one on b; virtual-1f1b warms up 4, 3, 1.
STAGES = (
    stage("a", 0, 3, WIDE, 4),
    stage("a", 3, 6, WIDE, 3),
    stage("b", 6, 8, NARROW, 1, last=True),
)


def findings(
    stages: Sequence[Stage] = STAGES,
    *,
    microbatches: int = 2,
    strategies: Sequence[Strategy] = (WIDE, NARROW),
    changes: Mapping[str, Any] | None = None,
    **problem_changes: Any,
) -> list[str]:
    problem = plain.problem(**problem_changes)
    table = plain.table(problem, strategies, **(changes or {}))
    plan = plain.plan(problem, table, stages, microbatches=microbatches)
    return findings_of(problem, table, plan)


def findings_of(problem: Problem, table: CostTable, plan: Plan) -> list[str]:
    try:
        check_plan(problem, table, plan)
    except CheckError as error:
        return error.findings
    return []


def one(stages: Sequence[Stage], index: int, **changes: Any) -> list[Stage]:
    """Change one stage."""
    changed = list(stages)
    changed[index] = replace(changed[index], **changes)
    return changed


def test_a_good_plan_passes_with_its_times_and_memory() -> None:
    problem = plain.problem()
    table = plain.table(problem, (WIDE, NARROW))
    checked = check_plan(problem, table, plain.plan(problem, table, STAGES))
    # tau = 6300, 9000, 3300; boundaries 2 * 100 each; longest window: the second
    # stage alone; g = 50; q = 2
    assert checked.closed_form_s == pytest.approx((18600 + 400 + 9000 + 50) * 1e-9)
    # state + in flight * activations + fixed + temporary
    assert checked.memory_bytes == (
        300 + 2 * 30 + 20 + 5,
        300 + 2 * 30 + 20 + 5,
        200 + 1 * 20 + 20 + 50,
    )
    # F1 and B1 run down and up the pipeline; B2 of the second stage follows B1
    assert checked.iteration_time_s == pytest.approx(
        price(plain.plan(problem, table, STAGES), table).iteration_time_s, rel=1e-12
    )


def test_the_plan_of_one_stage() -> None:
    assert findings([stage("a", 0, 8, WIDE, 1, last=True)]) == []


# --- units --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        pytest.param(one(STAGES, 0, end_unit=2), "unit 2 is left out", id="gap"),
        pytest.param(one(STAGES, 0, end_unit=4), "stage 0 holds too", id="overlap"),
        pytest.param(one(STAGES, 2, end_unit=7), "ends at 7, expected 8", id="short"),
        pytest.param(one(STAGES, 2, end_unit=9), "ends at 9, expected 8", id="long"),
        pytest.param(one(STAGES, 0, first_unit=1), "unit 0 is left out", id="start"),
        pytest.param(
            one(one(STAGES, 1, end_unit=7), 2, first_unit=7),
            "stage 2: units 7 to 8 hold no transformer layer",
            id="head-alone",
        ),
        pytest.param(
            one(one(STAGES, 0, end_unit=1), 1, first_unit=1),
            "stage 0: units 0 to 1 hold no transformer layer",
            id="embedding-alone",
        ),
        pytest.param(
            one(one(STAGES, 0, end_unit=6), 1, first_unit=6),
            "stage 1: units 6 to 6 are none",
            id="empty",
        ),
        pytest.param(
            [STAGES[1], STAGES[0], STAGES[2]], "unit 0 is left out", id="swapped"
        ),
        pytest.param([], "stages: none", id="none"),
        pytest.param(
            one(STAGES, 0, unit_strategies=(WIDE,) * 3),
            "stage 0: units have strategies of their own",
            id="unit-strategies",
        ),
    ],
)
def test_units(stages: list[Stage], expected: str) -> None:
    found = findings(stages)
    assert any(expected in line for line in found), found


# --- clusters and meshes ------------------------------------------------------------


def test_an_unknown_cluster() -> None:
    found = findings(one(STAGES, 2, cluster="c"))
    assert "cluster 'c': unknown, expected one of a, b" in found


def test_a_split_cluster() -> None:
    stages = [
        stage("a", 0, 3, WIDE, 5),
        stage("b", 3, 6, NARROW, 3),
        stage("a", 6, 8, WIDE, 1, last=True),
    ]
    assert findings(stages) == ["cluster 'a': stages 0 and 2 are not consecutive (P3)"]


def test_two_strategies_in_one_cluster() -> None:
    found = findings(one(STAGES, 1, strategy=NARROW))
    assert found == [
        "cluster 'a': strategies (2,1,2) none and (2,1,1) none, expected one (P4)"
    ]


def test_too_many_devices() -> None:
    assert findings() == []
    smaller = (plain.cluster("a", 1, 4), plain.cluster("b", 1, 4))
    assert findings(clusters=smaller) == [
        "cluster 'a': stages take 8 devices, it has 4"
    ]


def alone(
    strategy: Strategy, *, microbatches: int = 1, **problem_changes: Any
) -> list[str]:
    """Findings of a plan of one stage on cluster a."""
    return findings(
        [stage("a", 0, 8, strategy, 1, last=True)],
        strategies=(strategy,),
        microbatches=microbatches,
        **problem_changes,
    )


def model(**changes: Any) -> dict[str, Any]:
    return {"model": replace(plain.MODEL, **changes)}


def training(**changes: Any) -> dict[str, Any]:
    return {"training": replace(plain.TRAINING, **changes)}


def clusters(nodes: int, devices_per_node: int, **changes: Any) -> dict[str, Any]:
    return {"clusters": (plain.cluster("a", nodes, devices_per_node, **changes),)}


@pytest.mark.parametrize(
    ("strategy", "good", "bad", "expected"),
    [
        pytest.param(
            Strategy(dp=2, cp=1, tp=1),
            clusters(1, 4),
            clusters(1, 3),
            "2 devices a stage neither divide nor are a multiple of the 3 devices "
            "of a node",
            id="node",
        ),
        pytest.param(
            Strategy(dp=4, cp=1, tp=1),
            clusters(2, 2),
            clusters(2, 3),
            "4 devices a stage neither divide nor are a multiple of the 3 devices "
            "of a node",
            id="nodes",
        ),
        pytest.param(
            Strategy(dp=3, cp=1, tp=4),
            clusters(3, 4) | training(global_batch=6),
            clusters(2, 6) | training(global_batch=6),
            "tp 4 does not divide the 6 devices of a node",
            id="tp-in-node",
        ),
        pytest.param(
            Strategy(dp=1, cp=1, tp=4),
            clusters(1, 4, max_tp=4),
            clusters(1, 4, max_tp=2),
            "tp 4 is more than max_tp 2",
            id="max-tp",
        ),
        pytest.param(
            Strategy(dp=1, cp=1, tp=4),
            model(heads=12, kv_heads=4),
            model(heads=10, kv_heads=2),
            "tp 4 does not divide the 10 attention heads",
            id="heads",
        ),
        pytest.param(
            Strategy(dp=1, cp=1, tp=4),
            model(ffn=12),
            model(ffn=14),
            "tp 4 does not divide the MLP width 14",
            id="ffn",
        ),
        pytest.param(
            Strategy(dp=1, cp=1, tp=4),
            model(heads=24, kv_heads=2),
            model(heads=24, kv_heads=6),
            "tp 4 neither divides nor is a multiple of the 6 key-value heads",
            id="kv-heads",
        ),
        pytest.param(
            Strategy(dp=1, cp=2, tp=1),
            training(seq_len=12),
            training(seq_len=14),
            "cp 2 needs 4 equal parts of a sequence of 14 tokens",
            id="cp",
        ),
        pytest.param(
            Strategy(dp=1, cp=1, tp=4),
            training(seq_len=12),
            training(seq_len=14),
            "cp * tp = 4 does not divide the sequence length 14",
            id="sequence-parallel",
        ),
        pytest.param(
            Strategy(dp=4, cp=1, tp=1),
            training(global_batch=8),
            training(global_batch=6),
            "microbatches * dp = 1 * 4 does not divide the global batch 6",
            id="batch",
        ),
        pytest.param(
            Strategy(dp=4, cp=1, tp=1, recompute="full"),
            training(recompute={"a": ("none", "full")}),
            training(recompute={"a": ("none", "selective")}),
            "training.recompute permits none, selective on this cluster",
            id="recompute",
        ),
    ],
)
def test_mesh(
    strategy: Strategy, good: dict[str, Any], bad: dict[str, Any], expected: str
) -> None:
    assert alone(strategy, **good) == []
    found = alone(strategy, **bad)
    assert found[0] == f"cluster 'a': {strategy}: {expected}"
    # a table must not say that a replica gets a part of a sequence
    assert all("does not use the global batch exactly" in line for line in found[1:])


def test_microbatches_that_do_not_divide_the_batch() -> None:
    found = findings(microbatches=3)
    assert "microbatches: 3 does not divide the global batch 8" in found
    assert "table: no entry for 3 microbatches" in found


def test_a_table_that_uses_part_of_the_batch() -> None:
    problem = plain.problem()
    table = plain.table(problem, (WIDE, NARROW))
    table.at(2).clusters[1].microbatch[:] = 1
    found = findings_of(problem, table, plain.plan(problem, table, STAGES))
    assert len(found) == 1
    assert "does not use the global batch exactly" in found[0]


def test_a_strategy_that_is_not_in_the_table() -> None:
    found = findings(one(STAGES, 2, strategy=replace(NARROW, recompute="full")))
    assert found == [
        "stage 2: the table has no (2,1,1) full on 'b' with 2 microbatches"
    ]


# --- pins ---------------------------------------------------------------------------


def only(*values: Any) -> Domain:
    return Domain(allowed=frozenset(values))


def without(*values: Any) -> Domain:
    return Domain(forbidden=frozenset(values))


def on(cluster: str, **domains: Domain) -> Pins:
    return Pins(clusters={cluster: ClusterPins(**domains)})


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        (
            Pins(stages=only(3, 2)),
            Pins(stages=only(4, 2)),
            "pin stages: 3, expected 2 or 4",
        ),
        (
            Pins(stages=without(2)),
            Pins(stages=without(3)),
            "pin stages: 3 is forbidden",
        ),
        (
            Pins(microbatches=only(2)),
            Pins(microbatches=only(4)),
            "pin microbatches: 2, expected 4",
        ),
        (
            Pins(microbatches=without(4)),
            Pins(microbatches=without(2)),
            "pin microbatches: 2 is forbidden",
        ),
        (
            Pins(order=("a", "b")),
            Pins(order=("b", "a")),
            "pin order: a, b, expected b, a",
        ),
        (
            Pins(order=("a", "b")),
            Pins(order=("a",)),
            "pin order: a, b, expected a",
        ),
        (
            Pins(forbidden_next=frozenset({("b", "a")})),
            Pins(forbidden_next=frozenset({("a", "b")})),
            "pin: cluster 'b' follows 'a', which is forbidden",
        ),
        (
            Pins(units=(3, 3, 2)),
            Pins(units=(3, 2, 3)),
            "pin units: [3, 3, 2] per stage, expected [3, 2, 3]",
        ),
        (
            on("a", stages=only(2)),
            on("a", stages=only(1)),
            "pin clusters.a.stages: 2, expected 1",
        ),
        (
            on("b", stages=without(0)),
            on("b", stages=only(0)),
            "pin clusters.b.stages: 1, expected 0",
        ),
        (
            on("b", units=only(2)),
            on("b", units=without(2)),
            "pin clusters.b.units: 2 is forbidden",
        ),
        (
            on("a", dp=only(2)),
            on("a", dp=only(1, 4)),
            "pin clusters.a.dp: 2, expected 1 or 4",
        ),
        (
            on("a", cp=only(1)),
            on("a", cp=without(1)),
            "pin clusters.a.cp: 1 is forbidden",
        ),
        (
            on("a", tp=without(1)),
            on("a", tp=only(1)),
            "pin clusters.a.tp: 2, expected 1",
        ),
        (
            on("b", recompute=without("full")),
            on("b", recompute=only("full")),
            "pin clusters.b.recompute: none, expected full",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_pins(good: Pins, bad: Pins, expected: str) -> None:
    assert findings(pins=good) == []
    found = findings(pins=bad)
    assert len(found) == 1
    assert found[0].endswith(expected)


def test_an_unused_cluster_that_must_be_used() -> None:
    stages = [stage("a", 0, 4, WIDE, 2), stage("a", 4, 8, WIDE, 1, last=True)]
    assert findings(stages) == []
    assert findings(stages, pins=on("b", dp=only(4))) == []
    assert findings(stages, pins=on("b", stages=without(0))) == [
        "pin clusters.b.stages: 0 is forbidden"
    ]
    assert findings(stages, pins=on("b", units=only(3))) == [
        "pin clusters.b.units: 0, expected 3"
    ]


def test_a_resharding_pin() -> None:
    assert findings(pins=Pins(resharding=only("p2p", "leader"))) == []
    assert (
        findings(pins=Pins(resharding=without("p2p")))
        == ["pin resharding: p2p is forbidden"] * 2
    )


# --- schedule, memory, boundaries ---------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("1f1b", (3, 2, 1)),
        ("eager-1f1b", (5, 3, 1)),
        ("virtual-1f1b", (4, 3, 1)),
        ("h-1f1b", (5, 3, 1)),
        ("gpipe", (2, 2, 2)),
    ],
)
def test_warmups(schedule: ScheduleName, expected: tuple[int, ...]) -> None:
    changed = replace(plain.TRAINING, schedule=schedule)
    good = [
        replace(one, warmup=count) for one, count in zip(STAGES, expected, strict=True)
    ]
    assert findings(good, training=changed) == []
    for i, count in enumerate(expected):
        for other in (count - 1, count + 1):
            bad = one(good, i, warmup=other)
            assert findings(bad, training=changed) == [
                f"stage {i}: warmup {other}, {schedule} gives {count}"
            ]


@pytest.mark.parametrize(
    ("transfer_ns", "first"), [(90, 3), (91, 5), (4500, 5), (4501, 7), (9001, 7)]
)
def test_h_1f1b_warms_up_by_the_boundary(transfer_ns: int, first: int) -> None:
    """The slowest stage takes 9000 ns: thresholds are 90 and 4500 ns."""
    stages = [
        replace(each, warmup=count)
        for each, count in zip(STAGES, (first, (first + 1) // 2, 1), strict=True)
    ]
    changed = replace(plain.TRAINING, schedule="h-1f1b")
    assert findings(stages, training=changed, changes={"transfer_ns": transfer_ns}) == (
        []
    )


def test_memory_to_the_byte() -> None:
    """The first stage needs 325 + 2 * 30 bytes, the second as much."""
    fits = {"usable_bytes": (385, 1000)}
    assert findings(changes=fits) == []
    tight = {"usable_bytes": (384, 1000)}
    assert findings(changes=tight) == [
        f"stage {i}: memory 385 bytes, 384 are usable on 'a'" for i in (0, 1)
    ]


def test_memory_counts_the_microbatches_in_flight() -> None:
    """min(W, q): with q = 8 the first stage holds four, the second three."""
    more = training(global_batch=16)
    fits = {"usable_bytes": (445, 1000)}
    assert findings(microbatches=8, changes=fits, **more) == []
    tight = {"usable_bytes": (444, 1000)}
    assert findings(microbatches=8, changes=tight, **more) == [
        "stage 0: memory 445 bytes, 444 are usable on 'a'"
    ]


def test_the_wrong_resharding() -> None:
    assert findings(one(STAGES, 0, resharding="leader")) == [
        "stage 0: resharding leader, the table says p2p"
    ]
    assert findings(one(STAGES, 1, resharding=None)) == [
        "stage 1: resharding None, the table says p2p"
    ]
    assert findings(one(STAGES, 2, resharding="p2p")) == [
        "stage 2: resharding p2p, the last stage has no next"
    ]


def test_the_schedule_is_the_problem_s() -> None:
    problem = plain.problem()
    table = plain.table(problem, (WIDE, NARROW))
    plan = replace(plain.plan(problem, table, STAGES), schedule="1f1b")
    assert findings_of(problem, table, plan) == [
        "schedule: 1f1b, the problem says virtual-1f1b"
    ]


def test_two_pipelines() -> None:
    problem = plain.problem()
    table = plain.table(problem, (WIDE, NARROW))
    plan = plain.plan(problem, table, STAGES)
    twice = replace(plan, pipelines=plan.pipelines * 2)
    assert findings_of(problem, table, twice) == ["pipelines: 2, expected one"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"cluster_names": ("a", "c")}, "table: clusters a, c, expected a, b"),
        ({"schedule": "gpipe"}, "table: schedule gpipe, the problem says virtual-1f1b"),
        ({"units": (0, 1, 2)}, "table: 3 units, the model has 8"),
        (
            {"cluster_devices": (9, 4)},
            "table: 9 devices in cluster 'a', the problem has 8",
        ),
        (
            {"usable_bytes": (1002, 1000)},
            "table: 1002 usable bytes on 'a', the problem leaves 1000 after",
        ),
    ],
)
def test_a_table_of_another_problem(changes: dict[str, Any], expected: str) -> None:
    found = findings(changes=changes)
    assert len(found) == 1
    assert expected in found[0]


@pytest.mark.parametrize("what", ["problem", "table"])
def test_a_digest_that_does_not_match(what: str) -> None:
    problem = plain.problem()
    table = plain.table(problem, (WIDE, NARROW))
    plan = plain.plan(problem, table, STAGES)
    other = (
        replace(plan, problem_digest="0" * 64)
        if what == "problem"
        else replace(plan, table_digest="0" * 64)
    )
    with pytest.raises(DigestError, match=f"another {what}"):
        check_plan(problem, table, other)


def test_all_findings_come_at_once() -> None:
    found = findings(
        one(STAGES, 0, warmup=9),
        pins=Pins(stages=only(2), microbatches=only(4)),
        changes={"usable_bytes": (384, 1000)},
    )
    assert len(found) == 5


# --- the oracle, the checker and the pricing agree ----------------------------------


@pytest.mark.parametrize("schedule_index", range(5))
def test_checker_oracle_and_pricing_agree(schedule_index: int) -> None:
    feasible = 0
    for seed in range(1000 + schedule_index, 1000 + schedule_index + 5 * 24, 5):
        instance = make_instance(seed)
        problem, table = instance.problem, instance.table
        answer = brute_force.solve(problem, table)
        for found in answer.shapes[:: max(1, len(answer.shapes) // 5)]:
            plan = brute_force.to_plan(problem, table, found)
            checked = check_plan(problem, table, plan)
            priced = price(plan, table)
            exact = float(found.closed_form_ns * Fraction(1, 10**9))
            assert checked.closed_form_s == pytest.approx(exact, rel=1e-12)
            assert priced.closed_form_s == pytest.approx(exact, rel=1e-12)
            assert checked.iteration_time_s == pytest.approx(
                priced.iteration_time_s, rel=1e-12
            )
            assert checked.memory_bytes == tuple(priced.memory_bytes)
            feasible += 1
    assert feasible > 30


def test_simulated_by_hand() -> None:
    """Two stages, two micro-batches, a boundary that takes 1 of the 2 it needs."""
    times = Times(
        schedule="1f1b",
        microbatches=2,
        forward=(3, 3),
        backward=(4, 4),
        transfer=(2,),
        occupancy=(1,),
        sync=(5, 0),
    )
    counts = warmups(times, ("a", "a"))
    assert counts == (2, 1)
    # F1 0-3, F2 3-6 | F1 5-8, B1 8-12, F2 12-15, B2 15-19 | B1 14-18, B2 21-25
    assert simulate(times, counts) == 30
    assert closed_form(times, counts) == 14 + 4 + Fraction(18, 2) + 5


def test_a_blocked_pipeline_is_an_error() -> None:
    times = Times(
        schedule="1f1b",
        microbatches=2,
        forward=(1, 1),
        backward=(1, 1),
        transfer=(0,),
        occupancy=(0,),
        sync=(0, 0),
    )
    with pytest.raises(ValueError, match="block each other"):
        simulate(times, (1, 2))


# --- results ------------------------------------------------------------------------


def sample() -> tuple[Problem, CostTable, dict[str, Any]]:
    """Return an optimal result with two alternatives, as plain data."""
    problem = plain.problem()
    table = plain.table(problem, (WIDE, NARROW))
    answer = brute_force.solve(problem, table)
    return problem, table, result_of(problem, table, answer).to_json()


def result_of(problem: Problem, table: CostTable, answer: brute_force.Answer) -> Result:
    priced = []
    for found in answer.shapes[:3]:
        plan = brute_force.to_plan(problem, table, found)
        price_ = price(plan, table)
        priced.append(
            PricedPlan(
                plan=plan,
                closed_form_s=price_.closed_form_s,
                iteration_time_s=price_.iteration_time_s,
            )
        )
    programs = answer.programs
    settlements = tuple(
        Settlement(
            stages=p,
            microbatches=q,
            how="solved" if (p, q) in programs else "infeasible",
            bound_s=float(programs[p, q].closed_form_ns) * 1e-9
            if (p, q) in programs
            else None,
        )
        for p in problem.stage_counts
        for q in problem.microbatch_counts
    )
    best = priced[0]
    devices = {"a": 8, "b": 4}
    used = sum(stage.strategy.devices for stage in best.plan.pipeline.stages)
    return Result(
        status="optimal",
        solver="brute-force",
        best=best,
        alternatives=tuple(priced[1:]),
        lower_bound_s=best.closed_form_s,
        gap=0.0,
        search_time_s=0.1,
        settlements=settlements,
        tokens_per_s=table.tokens / best.iteration_time_s,
        mfu=1e6 / (best.iteration_time_s * sum(devices.values()) * 1e12),
        mfu_used=1e6 / (best.iteration_time_s * used * 1e12),
        table_kinds=dict(zip(table.cluster_names, table.sources, strict=True)),
    )


def test_a_true_result_has_no_findings() -> None:
    problem, table, data = sample()
    assert len(data["alternatives"]) == 2
    assert check_result(problem, table, data) == []
    assert check_result(problem, table, json.loads(json.dumps(data))) == []


@pytest.mark.parametrize("factor", [1 + 1e-6, 1 - 1e-6])
@pytest.mark.parametrize(
    "key",
    [
        "closed_form_s",
        "iteration_time_s",
        "lower_bound_s",
        "tokens_per_s",
        "mfu",
        "mfu_used",
    ],
)
def test_a_number_that_is_wrong_by_a_millionth(key: str, factor: float) -> None:
    problem, table, data = sample()
    data[key] *= factor
    found = check_result(problem, table, data)
    assert found
    assert any(line.startswith(key) for line in found)


def settle(data: dict[str, Any], how: str, bound_s: float | None) -> dict[str, Any]:
    """Settle the first solved program otherwise, and count it so."""
    data = json.loads(json.dumps(data))
    entry = next(e for e in data["settlements"] if e["how"] == "solved")
    entry.update(how=how, bound_s=bound_s)
    hows = [e["how"] for e in data["settlements"]]
    data["settled"] = {name: hows.count(name) for name in dict.fromkeys(hows)}
    return data


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"gap": 0.5}, "gap: 0.5, expected 0.0"),
        ({"gap": None}, "gap: None"),
        ({"lower_bound_s": None}, "optimal, but there is no lower bound"),
        ({"lower_bound_s": 0.0, "gap": 1.0}, "optimal, but the gap is 1.0"),
        ({"status": "infeasible"}, "status: infeasible, but there is a plan"),
        ({"settled": {"solved": 1}}, "settled:"),
        ({"settlements": [], "settled": {}}, "(1, 1) is missing"),
        ({"table_kinds": {"a": "measured"}}, "table_kinds:"),
        ({"plan": None}, "status: optimal, but there is no plan"),
    ],
)
def test_a_false_claim(change: dict[str, Any], expected: str) -> None:
    problem, table, data = sample()
    data.update(change)
    found = check_result(problem, table, data)
    assert any(expected in line for line in found), found


def test_settlements_that_do_not_prove_the_bound() -> None:
    problem, table, data = sample()
    found = check_result(problem, table, settle(data, "unsettled", 1e-9))
    assert any("the settlements prove only" in line for line in found), found
    found = check_result(problem, table, settle(data, "unsettled", None))
    assert any("some (p, q) has no bound" in line for line in found), found
    found = check_result(problem, table, settle(data, "infeasible", 1.0))
    assert any("is infeasible, but has a bound" in line for line in found), found
    found = check_result(problem, table, settle(data, "refuted-by-bound", None))
    assert any("but has no bound" in line for line in found), found
    data["settlements"].append(data["settlements"][0])
    found = check_result(problem, table, data)
    assert any("more than once" in line for line in found), found


def test_alternatives_that_do_not_hold() -> None:
    problem, table, data = sample()
    other = json.loads(json.dumps(data))
    other["alternatives"][0]["closed_form_s"] *= 2
    found = check_result(problem, table, other)
    assert [line.split(":")[0] for line in found] == ["alternatives.0.closed_form_s"]
    other = json.loads(json.dumps(data))
    other["alternatives"][1] = {
        "plan": other["plan"],
        "closed_form_s": other["closed_form_s"],
        "iteration_time_s": other["iteration_time_s"],
    }
    found = check_result(problem, table, other)
    assert any("differs from another plan in its units only" in line for line in found)
    other = json.loads(json.dumps(data))
    other["alternatives"][0]["plan"]["pipelines"][0]["stages"][-1]["end_unit"] = 7
    found = check_result(problem, table, other)
    assert any("alternatives.0: units: the last stage" in line for line in found)


def test_a_broken_plan_shows_in_a_result() -> None:
    problem, table, data = sample()
    data["plan"]["pipelines"][0]["stages"][-1]["warmup"] = 7
    found = check_result(problem, table, data)
    assert any("warmup 7" in line for line in found), found


def test_an_infeasible_result() -> None:
    problem = plain.problem(pins=Pins(stages=only(6), order=("b",)))
    table = plain.table(problem, (WIDE, NARROW))
    answer = brute_force.solve(problem, table)
    assert answer.best is None
    data = Result(
        status="infeasible",
        solver="brute-force",
        best=None,
        lower_bound_s=None,
        gap=None,
        search_time_s=0.1,
        settlements=tuple(
            Settlement(stages=6, microbatches=q, how="infeasible", bound_s=None)
            for q in (1, 2, 4, 8)
        ),
        tokens_per_s=None,
        mfu=None,
        mfu_used=None,
        table_kinds={"a": "measured", "b": "measured"},
        reason="cluster b has room for two stages",
    ).to_json()
    assert check_result(problem, table, data) == []
    del data["settlements"][1:]
    data["settled"] = {"infeasible": 1}
    found = check_result(problem, table, data)
    assert found == [f"settlements: (6, {q}) is missing" for q in (2, 4, 8)]


def _set(path: str, value: object) -> Any:
    def change(data: dict[str, Any]) -> None:
        place: Any = data
        *parents, last = path.split(".")
        for key in parents:
            place = place[int(key)] if isinstance(place, list) else place[key]
        if value is ...:
            del place[last]
        else:
            place[last] = value

    return change


STAGE = "plan.pipelines.0.stages.0"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema", "hetopt-result/99"),
        ("status", "splendid"),
        ("status", ...),
        ("objective", None),
        ("solver", 3),
        ("closed_form_s", "fast"),
        ("closed_form_s", ...),
        ("gap", float("nan")),
        ("mfu", -1.0),
        ("lower_bound_s", float("inf")),
        ("search_time_s", True),
        ("settled", []),
        ("table_kinds", None),
        ("settlements", {}),
        ("settlements.0.how", "guessed"),
        ("settlements.0.stages", 1.5),
        ("settlements.0.microbatches", ...),
        ("settlements.0.bound_s", "low"),
        ("alternatives", "none"),
        ("alternatives.0.plan", None),
        ("alternatives.0.closed_form_s", ...),
        ("plan", 7),
        ("plan.schema", "hetopt-plan/99"),
        ("plan.schedule", "zigzag"),
        ("plan.problem_digest", None),
        ("plan.pipelines", {}),
        ("plan.pipelines.0.microbatches", 0),
        ("plan.pipelines.0.stages", ...),
        (f"{STAGE}.cluster", 1),
        (f"{STAGE}.first_unit", -1),
        (f"{STAGE}.end_unit", "8"),
        (f"{STAGE}.dp", 0),
        (f"{STAGE}.tp", ...),
        (f"{STAGE}.recompute", "some"),
        (f"{STAGE}.warmup", 1.0),
        (f"{STAGE}.resharding", "teleport"),
        (f"{STAGE}.unit_strategies", [3]),
    ],
)
def test_malformed_data_names_the_key(path: str, value: object) -> None:
    problem, table, data = sample()
    _set(path, value)(data)
    with pytest.raises(InputError) as caught:
        check_result(problem, table, data)
    assert caught.value.field is not None
    assert caught.value.field.startswith(path)


@pytest.mark.parametrize("data", [None, 3, "plan", [], {}])
def test_data_that_is_no_result(data: Any) -> None:
    problem = plain.problem()
    table = plain.table(problem, (WIDE, NARROW))
    with pytest.raises(InputError):
        check_result(problem, table, data)


def test_recompute_policies_are_checked_per_cluster() -> None:
    """Cluster b may recompute everything while a may not."""
    policy: Recompute = RECOMPUTE[-1]
    changed = replace(plain.TRAINING, recompute={"a": ("none",)})
    own = replace(NARROW, recompute=policy)
    assert findings(
        one(STAGES, 2, strategy=own), strategies=(WIDE, own), training=changed
    ) == ([])
