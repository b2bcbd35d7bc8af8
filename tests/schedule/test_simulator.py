from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from hetopt.schedule import run as running
from hetopt.schedule.run import simulate
from tests.schedule.pipelines import (
    event_graph,
    longest_paths,
    pipeline,
    pipelines,
    stage_order,
)

if TYPE_CHECKING:
    from hetopt.schedule.run import CriticalEvent
    from hetopt.schedule.times import PipelineTimes


@settings(max_examples=300, deadline=None)
@given(pipelines())
def test_every_start_is_the_longest_path_to_it(times: PipelineTimes) -> None:
    simulation = simulate(times)
    start = longest_paths(event_graph(times))
    assert simulation.makespan_ns == start["end", 0, 0]
    for stage in range(times.stages):
        for m in range(times.microbatches):
            assert simulation.starts_ns["F"][stage, m] == start["F", stage, m]
            assert simulation.starts_ns["B"][stage, m] == start["B", stage, m]


def edge_of(times: PipelineTimes, event: CriticalEvent) -> tuple[str, int]:
    """(letter in the event graph, how long the next event waits)."""
    letter, durations = {
        "forward": ("F", times.forward_ns),
        "backward": ("B", times.backward_ns),
        "send-forward": ("S", times.transfer_ns),
        "send-backward": ("G", (0, *times.transfer_ns)),
        "occupy-forward": ("S", times.occupancy_ns),
        "occupy-backward": ("G", (0, *times.occupancy_ns)),
        "sync": ("end", times.sync_ns),
    }[event.kind]
    return letter, durations[event.stage]


@settings(max_examples=300, deadline=None)
@given(pipelines())
def test_critical_path_is_a_path_of_the_graph(times: PipelineTimes) -> None:
    simulation = simulate(times)
    path = simulation.critical_path()
    assert path[0][:4] == ("forward", 0, 0, 0)
    assert path[-1].kind == "sync"
    assert path[-1].end_ns == simulation.makespan_ns
    for before, after in pairwise(path):
        assert before.end_ns == after.start_ns
    lengths = [edge_of(times, event)[1] for event in path]
    assert lengths == [event.end_ns - event.start_ns for event in path]
    edges = set(event_graph(times))
    names = [
        (edge_of(times, event)[0], event.stage, event.microbatch) for event in path
    ]
    for (source, target), delay in zip(pairwise(names[:-1]), lengths, strict=False):
        assert (target, source, delay) in edges


@settings(max_examples=100, deadline=None)
@given(pipelines())
def test_compiled_events_are_those_of_plain_python(times: PipelineTimes) -> None:
    plain, path = simulate(times), simulate(times).critical_path()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "PAYS_FROM", 0)
        fast = simulate(times)
        assert fast.makespan_ns == plain.makespan_ns
        for kind, starts in plain.starts_ns.items():
            assert (fast.starts_ns[kind] == starts).all()
            assert (fast.sent_ns[kind] == plain.sent_ns[kind]).all()
        assert list(fast.critical_path()) == list(path)


def test_many_microbatches_take_a_moment() -> None:
    """Two stages settle at the slower one's pace."""
    q = 100_003
    run = simulate(pipeline([3, 4], [5, 7], [1], microbatches=q, warmups=[2, 1]))
    assert run.makespan_ns == 3 + 1 + q * 11 + 1 + 5
    assert len(run.critical_path()) > q


@settings(max_examples=200, deadline=None)
@given(pipelines())
def test_activity_and_order_of_a_stage(times: PipelineTimes) -> None:
    simulation = simulate(times)
    for stage, busy_ns in enumerate(simulation.busy_ns):
        events = [
            (
                simulation.starts_ns["F"][stage, m],
                simulation.ends_ns["F"][stage, m],
            )
            if kind == "F"
            else (
                simulation.starts_ns["B"][stage, m],
                simulation.ends_ns["B"][stage, m],
            )
            for kind, m in stage_order(times.warmups[stage], times.microbatches)
        ]
        assert all(end <= start for (_, end), (start, _) in pairwise(events))
        computing = sum(int(end - start) for start, end in events)
        assert busy_ns == computing + times.sync_ns[stage]
        idle_share = simulation.idle_share[stage]
        assert 0 <= idle_share <= 1
        if simulation.makespan_ns:
            idle = simulation.makespan_ns - busy_ns
            assert idle_share == pytest.approx(idle / simulation.makespan_ns)


def test_1f1b_of_two_stages_by_hand() -> None:
    """F 1, B 2, no transfer, three micro-batches.

    stage 0: F0 0-1, F1 1-2, B0 4-6, F2 6-7, B1 7-9, B2 10-12
    stage 1: F0 1-2, B0 2-4, F1 4-5, B1 5-7, F2 7-8, B2 8-10
    """
    simulation = simulate(pipeline([1, 1], [2, 2], [0], microbatches=3, warmups=[2, 1]))
    assert simulation.starts_ns["F"].tolist() == [[0, 1, 6], [1, 4, 7]]
    assert simulation.starts_ns["B"].tolist() == [[4, 7, 10], [2, 5, 8]]
    assert simulation.makespan_ns == 12
    assert simulation.busy_ns == (9, 9)
    assert simulation.idle_share == (0.25, 0.25)
    kinds = [(e.kind, e.stage, e.microbatch) for e in simulation.critical_path()]
    assert kinds[:3] == [
        ("forward", 0, 0),
        ("send-forward", 0, 0),
        ("forward", 1, 0),
    ]
    assert kinds[-3:] == [
        ("send-backward", 1, 2),
        ("backward", 0, 2),
        ("sync", 0, 2),
    ]


def test_gpipe_of_two_stages_by_hand() -> None:
    """All forwards, then backwards in the same order.

    stage 0: F0 0-1, F1 1-2, F2 2-3, B0 8-10, B1 10-12, B2 12-14
    stage 1: F0 2-3, F1 3-4, F2 4-5, B0 5-7, B1 7-9, B2 9-11 (transfers of 1)
    """
    simulation = simulate(
        pipeline([1, 1], [2, 2], [1], microbatches=3, warmups=[3, 3], schedule="gpipe")
    )
    assert simulation.starts_ns["F"].tolist() == [[0, 1, 2], [2, 3, 4]]
    assert simulation.starts_ns["B"].tolist() == [[8, 10, 12], [5, 7, 9]]
    assert simulation.makespan_ns == 14


def test_hapt_warmups_of_three_stages_by_hand() -> None:
    """{5, 2, 1} launches: five forwards leave stage 0 before its first backward."""
    times = pipeline([2, 2, 2], [4, 4, 4], [4, 0], microbatches=6, warmups=[5, 2, 1])
    simulation = simulate(times)
    # F0 0-2, arrives 6; stage 1 F0 6-8; stage 2 F0 8-10, B0 10-14; stage 1 B0
    # 14-18, arrives 22; stage 0 waits from 10 to 22.
    assert simulation.starts_ns["F"][0].tolist() == [0, 2, 4, 6, 8, 26]
    assert simulation.starts_ns["B"][0, 0] == 22
    assert simulation.starts_ns["B"][1, 0] == 14
    assert simulation.starts_ns["B"][2, 0] == 10
    # From then on stage 1 is never idle until its last backward.
    gaps = simulation.starts_ns["B"][1, 1:5] - simulation.ends_ns["B"][1, :4]
    assert gaps.tolist() == [2, 2, 2, 2]


def test_occupied_link_delays_the_next_transfer() -> None:
    """Transfers of 10 that occupy the link for 4 start 4 apart, either way."""
    simulation = simulate(
        pipeline([1, 1], [1, 1], [10], microbatches=3, warmups=[3, 3], occupancy=[4])
    )
    # Sends at 1, 5, 9 arrive at 11, 15, 19.
    assert simulation.starts_ns["F"][1].tolist() == [11, 15, 19]
    # B0 20-21, B1 21-22, B2 22-23: sends at 21, 25, 29.
    assert simulation.starts_ns["B"][0].tolist() == [31, 35, 39]
    assert simulation.makespan_ns == 40
    kinds = [event.kind for event in simulation.critical_path()]
    assert kinds.count("occupy-forward") == 2
    assert kinds.count("occupy-backward") == 2
    assert kinds.count("send-forward") == 1


def test_directions_do_not_disturb_each_other() -> None:
    simulation = simulate(pipeline([5, 1], [5, 1], [5], microbatches=2, warmups=[2, 1]))
    # F1 is sent from 10 to 15 while the gradient of 0 travels from 12 to 17.
    assert simulation.starts_ns["F"][1].tolist() == [10, 15]
    assert simulation.starts_ns["B"][0].tolist() == [17, 22]


def test_latest_sync_decides() -> None:
    times = pipeline([1, 1], [2, 2], [0], microbatches=3, warmups=[2, 1], sync=[0, 9])
    simulation = simulate(times)
    assert simulation.makespan_ns == 19
    assert simulation.critical_path()[-1] == ("sync", 1, 2, 10, 19)
    assert simulation.busy_ns[1] == 18


def test_one_stage_is_never_idle() -> None:
    simulation = simulate(pipeline([3], [5], microbatches=4, warmups=[1], sync=[2]))
    assert simulation.makespan_ns == 34
    assert simulation.idle_share[0] == 0


def test_nothing_takes_time() -> None:
    simulation = simulate(pipeline([0, 0], [0, 0], [0], microbatches=2, warmups=[2, 1]))
    assert simulation.makespan_ns == 0
    assert simulation.idle_share == (0, 0)


def test_times_beyond_32_bits() -> None:
    day = 86_400 * 10**9
    simulation = simulate(
        pipeline([day, day], [day, day], [day], microbatches=50, warmups=[2, 1])
    )
    assert simulation.ends_ns["B"].max() == simulation.makespan_ns > 100 * day


def test_rising_warmups_deadlock() -> None:
    times = pipeline([1, 1], [1, 1], [0], microbatches=4, warmups=[1, 2])
    with pytest.raises(ValueError, match="the schedule deadlocks: stage 1 warms up"):
        simulate(times)
    with pytest.raises(ValueError, match="deadlock"):
        longest_paths(event_graph(times))


def test_rising_warmups_beyond_q_are_harmless() -> None:
    times = pipeline([1, 1], [1, 1], [0], microbatches=2, warmups=[2, 3])
    assert simulate(times).makespan_ns == longest_paths(event_graph(times))["end", 0, 0]
