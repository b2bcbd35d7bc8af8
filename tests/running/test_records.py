"""What ranks wrote, put together by stage and boundary."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hetopt.errors import HetoptError
from hetopt.running.records import iterations_of, read_ranks
from hetopt.schedule.run import simulate
from tests.running.making import BEGAN_S, ranks_of
from tests.schedule.pipelines import pipeline, random_pipeline


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("ranks", [1, 2])
def test_what_went_as_simulated_is_found_so(seed: int, ranks: int) -> None:
    times = random_pipeline(Random(seed), max_stages=4, microbatches=5)
    run = simulate(times)
    (found,) = iterations_of(ranks_of(times, ranks=ranks))
    assert found.time_s == pytest.approx(run.makespan_ns * 1e-9)
    assert found.loss == 2.0
    for stage in range(times.stages):
        for m, span in enumerate(found.forward[stage]):
            assert span.start_s == pytest.approx(run.starts_ns["F"][stage, m] * 1e-9)
            assert span.length_s == pytest.approx(times.forward_ns[stage] * 1e-9)
        for m, span in enumerate(found.backward[stage]):
            assert span.end_s == pytest.approx(run.ends_ns["B"][stage, m] * 1e-9)
        assert found.sync[stage].length_s == pytest.approx(times.sync_ns[stage] * 1e-9)
    for number in range(times.stages - 1):
        for m, span in found.sent_forward[number].items():
            arrived = run.sent_ns["F"][number, m] + times.transfer_ns[number]
            assert span.end_s == pytest.approx(arrived * 1e-9)
        for m, span in found.sent_backward[number].items():
            start = run.sent_ns["B"][number + 1, m]
            assert span.end_s == pytest.approx(
                (start + times.transfer_ns[number]) * 1e-9
            )


def one_pass(**spans: tuple[int, float, float]) -> float:
    """Return the length of a pass of ranks, each with its replica, start and end."""
    ranks = ranks_of(pipeline([10], [20], [], microbatches=1, warmups=[1]))
    made = []
    for dp, start, end in spans.values():
        rank = {**ranks[0], "dp": dp}
        one = {**rank["iterations"][0]}
        one["passes"] = [["F", 0, start, end], ["B", 0, 50.0, 60.0]]
        one |= {"start_s": 0.0, "end_s": 61.0}
        made.append({**rank, "iterations": [one]})
    (found,) = iterations_of(made)
    assert found.forward[0][0].start_s == min(start for _, start, _ in spans.values())
    assert found.forward[0][0].end_s == max(end for *_, end in spans.values())
    return found.forward[0][0].length_s


def test_ranks_of_a_replica_wait_for_each_other() -> None:
    # The first rank waits for the second one's input before they can multiply.
    assert one_pass(a=(0, 1.0, 9.0), b=(0, 4.0, 9.5)) == 5.5
    # Replicas do not.
    assert one_pass(a=(0, 1.0, 9.0), b=(1, 4.0, 9.5)) == 8.0


def test_a_transfer_waits_for_its_sender_and_for_the_one_before() -> None:
    times = pipeline([10, 10], [20, 20], [5], microbatches=2, warmups=[2, 1])
    ranks = ranks_of(times)
    sent: list[Any] = [["send-forward", 0, 1.0, 1.1], ["send-forward", 1, 2.0, 2.1]]
    got: list[Any] = [
        ["receive-forward", 0, 0.0, 4.0],
        ["receive-forward", 1, 4.0, 6.0],
    ]
    for rank, rows in zip(ranks, (sent, got), strict=True):
        one = rank["iterations"][0]
        back = [row for row in one["transfers"] if row[0].endswith("backward")]
        moved = [[k, m, BEGAN_S + start, BEGAN_S + end] for k, m, start, end in rows]
        rank["iterations"] = [{**one, "transfers": [*moved, *back]}]
    (found,) = iterations_of(ranks)
    first, second = found.sent_forward[0].values()
    assert first == pytest.approx((1.0, 4.0, 3.0))
    # The sender was done early; the link was not.
    assert second == pytest.approx((4.0, 6.0, 2.0))


def test_a_rank_without_times_is_named(tmp_path: Path) -> None:
    (tmp_path / "rank-0.json").write_text(json.dumps({"stage": 0}))
    assert read_ranks(tmp_path, 1) == [{"stage": 0}]
    with pytest.raises(HetoptError, match="rank 1 wrote no times"):
        read_ranks(tmp_path, 2)
