"""Schedules for PyTorch are in the simulator's order."""

from hypothesis import given
from hypothesis import strategies as st

from hetopt.export.torchtitan.schedule_csv import schedule_text
from hetopt.schedule.run import simulate
from hetopt.schedule.times import PipelineTimes


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 8))
def test_rows_are_in_the_order_in_which_the_simulator_runs(
    counts: list[int], q: int
) -> None:
    warmups = tuple(sorted(counts, reverse=True))
    times = PipelineTimes(
        schedule="free-1f1b",
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
        starts = {f"{stage}F{n}": run.starts_ns["F"][stage, n] for n in range(q)}
        starts |= {f"{stage}B{n}": run.starts_ns["B"][stage, n] for n in range(q)}
        assert row.split(",") == sorted(starts, key=lambda cell: starts[cell])


def test_known_schedule() -> None:
    assert schedule_text((3, 1), 2) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
