from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from hetopt.schedule.closed_form import closed_form_ns
from hetopt.schedule.run import simulate
from tests.schedule.pipelines import pipeline, pipelines, random_pipeline

if TYPE_CHECKING:
    from hetopt.schedule.times import PipelineTimes


def path_cuts(times: PipelineTimes) -> list[int]:
    """Both cuts of every stage, as MODEL.md section 4 writes them."""
    tau, kappa, q = times.round_trip_ns, (*times.transfer_ns, 0), times.microbatches
    whole = sum(tau) + 2 * sum(kappa)
    cuts = []
    for i, warmup in enumerate(times.warmups):
        cuts.append(sum(tau[j] + 2 * kappa[j] for j in range(i)) + q * tau[i])
        cuts.append(
            whole
            + (q - min(warmup, q)) * times.forward_ns[i]
            + (q - 1) * times.backward_ns[i]
        )
    return cuts


def path_bound_ns(times: PipelineTimes) -> int:
    """Return the longest of the path cuts: a lower bound on the simulated time.

    For every stage i, two paths in the event graph (MODEL.md section 4, end):

    - the first micro-batch travels to i, which then runs all q forwards and
      backwards; the last gradient travels back:
      sum over j < i of (tau_j + 2 kappa_j) + q * tau_i;
    - the first micro-batch travels to the last stage and back to i, which then
      runs the forwards past its warm-up and all other backwards:
      sum over all j of (tau_j + 2 kappa_j) + (q - min(W_i, q)) * phi_i
      + (q - 1) * beta_i.

    MODEL.md's cuts end with the last backward of the first stage. Here the way
    back may also end at any stage k <= i with its g_k, whichever is longest, which
    is never a weaker bound.
    """
    microbatches = times.microbatches
    transfer = (*times.transfer_ns, 0)
    # Way there: first forward reaches stage i. Turn: from the end of stage i's
    # first forward to the start of its first backward, through the last stage.
    there = 0
    turn = sum(times.round_trip_ns) + 2 * sum(transfer)
    # Way back: from the end of stage i's last backward to the end of everything.
    back = times.sync_ns[0]
    longest = 0
    for stage, inflight in enumerate(times.inflight):
        forward, backward = times.forward_ns[stage], times.backward_ns[stage]
        turn -= forward + backward
        local = microbatches * (forward + backward)
        around = (
            forward
            + turn
            + (microbatches - inflight) * forward
            + microbatches * backward
        )
        longest = max(longest, there + max(local, around) + back)
        if stage + 1 < times.stages:
            hop = transfer[stage]
            turn -= 2 * hop
            there += forward + hop
            back = max(times.sync_ns[stage + 1], back + backward + hop)
    return longest


def test_hand_computed() -> None:
    # 20 + 2*6 + 4 * 32/3 + max(1, 7)
    times = pipeline([4, 4], [6, 6], [6], microbatches=5, warmups=[3, 1], sync=[1, 7])
    assert closed_form_ns(times) == 32 + Fraction(4 * 32, 3) + 7


@pytest.mark.parametrize(("occupancy", "expected"), [(1, 84), (5, 88), (9, 116)])
def test_gpipe(occupancy: int, expected: int) -> None:
    # 18 + 2*13 + 4 * (max(4, omega) + max(6, omega))
    times = pipeline(
        [3, 4],
        [6, 5],
        [13],
        microbatches=5,
        warmups=[5, 5],
        occupancy=[occupancy],
        schedule="gpipe",
    )
    assert closed_form_ns(times) == expected


def test_one_stage_is_exact_under_every_form() -> None:
    times = pipeline([3], [5], microbatches=7, warmups=[1], sync=[2])
    assert closed_form_ns(times) == 58
    assert path_bound_ns(times) == 58
    assert simulate(times).makespan_ns == 58


def test_one_microbatch_without_sync_is_the_fill() -> None:
    times = pipeline([3, 1], [5, 2], [4], microbatches=1, warmups=[2, 1])
    assert closed_form_ns(times) == 19
    assert path_bound_ns(times) == 19
    assert simulate(times).makespan_ns == 19


@settings(max_examples=300)
@given(pipelines())
def test_path_cuts_never_exceed_the_makespan(times: PipelineTimes) -> None:
    bound = path_bound_ns(times)
    assert max(path_cuts(times)) <= bound
    assert bound <= simulate(times).makespan_ns


def test_path_cuts_on_longer_pipelines() -> None:
    random = Random(22)
    for _ in range(300):
        microbatches = random.randint(1, 40)
        times = random_pipeline(random, max_stages=10, microbatches=microbatches)
        cuts = max(path_cuts(times))
        bound = path_bound_ns(times)
        assert cuts <= bound <= cuts + max(times.sync_ns)
        assert bound <= simulate(times).makespan_ns


@given(pipelines())
def test_bound_is_the_longest_cut_where_there_is_no_sync(times: PipelineTimes) -> None:
    quiet = pipeline(
        times.forward_ns,
        times.backward_ns,
        times.transfer_ns,
        microbatches=times.microbatches,
        warmups=times.warmups,
        occupancy=times.occupancy_ns,
    )
    assert path_bound_ns(quiet) == max(path_cuts(quiet))


def test_a_late_stage_with_a_long_sync_counts() -> None:
    times = pipeline([1, 1], [1, 1], [1], microbatches=2, warmups=[2, 1], sync=[0, 50])
    # F on stage 0, transfer, two round trips on stage 1, its sync.
    assert path_bound_ns(times) == 1 + 1 + 4 + 50


def test_deadlock() -> None:
    times = pipeline([1, 1], [1, 1], [0], microbatches=4, warmups=[1, 2])
    with pytest.raises(ValueError, match="deadlocks"):
        closed_form_ns(times)
