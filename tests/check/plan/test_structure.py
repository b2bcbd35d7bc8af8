"""Units, clusters and meshes: every rule alone, met and broken."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.check import check_plan
from hetopt.plans.plan import Stage
from hetopt.plans.strategy import Strategy
from hetopt.pricing.price import price
from hetopt.problem.training.choices import RECOMPUTE
from tests.check.plan.good import (
    NARROW,
    STAGES,
    WIDE,
    findings,
    findings_of,
    one,
    stage,
)
from tests.oracle import plain

if TYPE_CHECKING:
    from hetopt.problem.training.choices import Recompute


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
            "stage 1: holds no unit (first_unit 6, end_unit 6)",
            id="empty",
        ),
        pytest.param(
            [STAGES[1], STAGES[0], STAGES[2]], "unit 0 is left out", id="swapped"
        ),
        pytest.param([], "stages: none", id="none"),
        pytest.param(
            one(STAGES, 0, unit_strategies=(WIDE,) * 3),
            "no costs per unit, but units have strategies of their own",
            id="unit-strategies",
        ),
    ],
)
def test_units(stages: list[Stage], expected: str) -> None:
    found = findings(stages)
    assert any(expected in line for line in found), found


def test_none_of_a_model_with_one_table() -> None:
    tied = replace(plain.MODEL, tied=True)
    assert any("stages: none" in line for line in findings([], model=tied))


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
            Strategy(dp=4, cp=1, tp=1),
            clusters(2, 2),
            clusters(2, 3),
            "4 devices per stage fit neither into one node nor, with tp 1 inside each "
            "node, evenly into several nodes",
            id="nodes",
        ),
        pytest.param(
            Strategy(dp=3, cp=1, tp=4),
            clusters(3, 4) | training(global_batch=6),
            clusters(2, 6) | training(global_batch=6),
            "12 devices per stage fit neither into one node nor, with tp 4 inside each "
            "node, evenly into several nodes",
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


def test_recompute_policies_are_checked_per_cluster() -> None:
    """Cluster b may recompute everything while a may not."""
    policy: Recompute = RECOMPUTE[-1]
    changed = replace(plain.TRAINING, recompute={"a": ("none",)})
    own = replace(NARROW, recompute=policy)
    assert findings(
        one(STAGES, 2, strategy=own), strategies=(WIDE, own), training=changed
    ) == ([])
