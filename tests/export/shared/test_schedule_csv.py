"""Schedules for PyTorch are in the simulator's order, and no others are read."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetopt.errors import InputError
from hetopt.export.shared.schedule_csv import read_schedule, schedule_text
from hetopt.schedule.simulator import simulate
from hetopt.schedule.times import PipelineTimes


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 8))
def test_rows_are_in_the_order_in_which_the_simulator_runs(
    counts: list[int], q: int
) -> None:
    warmups = tuple(sorted(counts, reverse=True))
    times = PipelineTimes(
        schedule="auto",
        microbatches=q,
        warmups=warmups,
        forward_ns=(3,) * len(warmups),
        backward_ns=(5,) * len(warmups),
        transfer_ns=(1,) * (len(warmups) - 1),
        occupancy_ns=(0,) * (len(warmups) - 1),
        sync_ns=(0,) * len(warmups),
    )
    run = simulate(times)
    for stage, row in enumerate(schedule_text(warmups, q).splitlines()):
        starts = {f"{stage}F{n}": run.forward_start_ns[stage, n] for n in range(q)}
        starts |= {f"{stage}B{n}": run.backward_start_ns[stage, n] for n in range(q)}
        assert row.split(",") == sorted(starts, key=lambda cell: starts[cell])


def test_known_schedule() -> None:
    assert schedule_text((3, 1), 2) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no passes"),
        ("0F0,0B0\n1F0,1B0,1F1,1B1\n", "cell 3 of row 1 is out of order"),
        ("0F0,0B1,0F1,0B0\n", "cell 2 of row 0"),
        ("0F0,0I0,0W0\n", "'0I0' in row 0"),
        ("0F0,1F0,1B0,0B0\n", "'1F0' in row 0"),
        ("0F0,0F1,0B0,0B1\n1F0,1F1\n", "row 1 is out of order, expected 1B0"),
        ("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", "deadlocks: stage 1"),
    ],
)
def test_other_schedules_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "schedule.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_schedule(path)


def test_idle_cells_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "schedule.csv"
    path.write_text("0F0,0F1,,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n")
    assert read_schedule(path) == (2, (2, 1))
