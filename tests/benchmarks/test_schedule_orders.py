"""Measured orders of schedules: what is read, priced and compared."""

from __future__ import annotations

import pytest

import hetopt
from benchmarks.schedule_orders import groups, modelled, problem_of, verdict

RUNS = [row for group in groups() for row in group]


def test_a_group_is_one_layout_under_several_schedules() -> None:
    llama, qwen = groups()
    assert [row["schedule"] for row in llama] == ["1f1b", "interleaved-1f1b"]
    assert {row["schedule"] for row in qwen} > {"1f1b", "v-half", "v-min", "zb-v"}
    assert len(qwen) == 7
    for group in (llama, qwen):
        assert len({(row["accelerator"], row["pp"], row["ep"]) for row in group}) == 1


@pytest.mark.parametrize("row", RUNS, ids=lambda row: row["schedule"] + row["chunks"])
def test_every_run_is_a_problem_whose_stages_hold_equally_many_layers(
    row: dict[str, str],
) -> None:
    stages = int(row["pp"])
    problem = hetopt.read_problem(problem_of(row, 8 * stages))
    units = problem_of(row, 8 * stages)["pin"]["units"]
    assert problem.training.schedule == row["schedule"]
    ends = [1] + [0] * (stages - 1)
    if row["schedule"] not in {"zb-v", "v-half", "v-min"}:
        ends[-1] += 1
    assert len({unit - end for unit, end in zip(units, ends, strict=True)}) == 1


@pytest.mark.parametrize(
    ("measured", "ours", "expected"),
    [
        (0.05, [0.2, 0.001], "yes"),
        (-0.05, [-0.2], "yes"),
        (0.05, [-0.01, -0.02], "no"),
        (0.05, [0.01, -0.02], "mixed"),
        (0.009, [-0.5], "tie"),
    ],
)
def test_orders_are_compared_by_sign(
    measured: float, ours: list[float], expected: str
) -> None:
    assert verdict(measured, ours) == expected


def test_v_half_holds_less_than_1f1b_and_more_than_v_min() -> None:
    runs = {row["schedule"]: row for row in RUNS if row["pp"] == "4"}
    found = {name: modelled(runs[name], 8) for name in ("1f1b", "v-half", "v-min")}
    memory = [found[name][2] for name in ("v-min", "v-half", "1f1b")]
    assert memory == sorted(memory)
    # Only schedules with gradients of weights apart depend on their share.
    assert found["1f1b"][0] == pytest.approx(found["1f1b"][1])
    assert found["v-min"][1] > found["v-min"][0]
