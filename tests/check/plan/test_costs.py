"""Warm-ups, memory, resharding, and the table and digests a plan belongs to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.check import check_plan
from hetopt.errors import DigestError
from hetopt.problem.training.pins import Domain, Pins
from tests.check.plan.good import NARROW, STAGES, WIDE, findings, findings_of, one
from tests.oracle import plain

if TYPE_CHECKING:
    from hetopt.problem.training.choices import ScheduleName


def training(**changes: Any) -> dict[str, Any]:
    return {"training": replace(plain.TRAINING, **changes)}


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("1f1b", (3, 2, 1)),
        ("eager-1f1b", (5, 3, 1)),
        ("virtual-1f1b", (4, 3, 1)),
        ("h-1f1b", (3, 2, 1)),
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
    ("epsilon", "quick_ns"), [(None, 450), (0.05, 450), (0.01, 90), (1 / 30, 300)]
)
def test_h_1f1b_warms_up_by_the_boundary(epsilon: float | None, quick_ns: int) -> None:
    """The slowest stage takes 9000 ns, half of that is 4500 ns."""
    changed = replace(plain.TRAINING, schedule="h-1f1b", warmup_epsilon=epsilon)
    for transfer_ns, first in (
        (quick_ns, 3),
        (quick_ns + 1, 5),
        (4500, 5),
        (4501, 7),
        (9001, 7),
    ):
        stages = [
            replace(each, warmup=count)
            for each, count in zip(STAGES, (first, (first + 1) // 2, 1), strict=True)
        ]
        own = {"transfer_ns": transfer_ns}
        assert findings(stages, training=changed, changes=own) == []


def test_warm_ups_of_another_epsilon_are_refused() -> None:
    """The transfer of 100 ns is up to 9000 / 20, and more than 9000 / 100."""
    changed = replace(plain.TRAINING, schedule="h-1f1b")
    former = [
        replace(each, warmup=count)
        for each, count in zip(STAGES, (5, 3, 1), strict=True)
    ]
    assert findings(former, training=changed) == [
        "stage 0: warmup 5, h-1f1b gives 3",
        "stage 1: warmup 3, h-1f1b gives 2",
    ]
    problem = plain.problem(training=changed)
    costs = plain.table(problem, (WIDE, NARROW))
    said = replace(plain.plan(problem, costs, former), warmup_epsilon=0.01)
    found = ["warmup_epsilon: 0.01, the problem says 0.05"]
    assert findings_of(problem, costs, said) == found


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
        "stage 2: resharding p2p, but no stage follows the last one"
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
    assert findings_of(problem, table, twice) == [
        "pipelines: one of several has no share"
    ]


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
        pins=Pins(stages=Domain(allowed=frozenset({2})), order=("b", "a")),
        changes={"usable_bytes": (384, 1000)},
    )
    assert len(found) == 5
