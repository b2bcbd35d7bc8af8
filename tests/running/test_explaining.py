"""What a difference between a run and its simulation is put down to."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.running.explaining import explain_run, replayed_s
from hetopt.running.measured import Measured
from hetopt.schedule.run import simulate
from hetopt.schedule.times import Chunks, Uneven
from tests.running.making import measured_as
from tests.schedule.pipelines import chunked, pipeline, random_pipeline
from tests.schedule.test_folding import folded_pipeline
from tests.schedule.test_weights import split_pipeline

if TYPE_CHECKING:
    from hetopt.running.explaining import Explained
    from hetopt.schedule.times import PipelineTimes

MS = 1_000_000


@pytest.mark.parametrize("seed", range(8))
def test_what_was_measured_explains_itself(seed: int) -> None:
    """A run that follows the simulator's rules leaves nothing unexplained."""
    random = Random(seed)
    planned = random_pipeline(random, max_stages=4, microbatches=5)
    really = replace(
        planned,
        forward_ns=tuple(random.randint(1, 90) for _ in planned.forward_ns),
        backward_ns=tuple(random.randint(1, 90) for _ in planned.forward_ns),
        sync_ns=tuple(random.randint(1, 90) for _ in planned.forward_ns),
        transfer_ns=(40,) * (planned.stages - 1),
        occupancy_ns=(40,) * (planned.stages - 1),
    )
    planned = replace(planned, occupancy_ns=planned.transfer_ns)
    measured = measured_as(really)
    found = explain_run(planned, measured)
    assert found.predicted_s == simulate(planned).makespan_ns * 1e-9
    assert found.measured_s == pytest.approx(simulate(really).makespan_ns * 1e-9)
    assert found.replayed_s == pytest.approx(found.measured_s)
    assert sum(part for _, part in found.parts_s) == pytest.approx(
        found.measured_s - found.predicted_s
    )
    alone = replayed_s(measured, really.warmups, really.microbatches, really.schedule)
    assert alone == pytest.approx(found.measured_s)


@pytest.mark.parametrize("seed", range(8))
def test_stages_of_several_chunks_explain_themselves(seed: int) -> None:
    planned, really = chunked(Random(seed), 3, 6, 2), chunked(Random(-seed), 3, 6, 2)
    measured = measured_as(really)
    assert measured.chunks is not None
    assert measured.to_json()["chunks"]["count"] == 2
    assert measured.chunks.lead_s == pytest.approx((7e-3, 9e-3))
    assert measured.chunks.trail_s == pytest.approx((11e-3, 13e-3))
    explained(planned, really, measured)


def explained(
    planned: PipelineTimes, really: PipelineTimes, measured: Measured
) -> Explained:
    """Explain a run, whose times are those of its own simulation."""
    found = explain_run(planned, measured)
    assert found.predicted_s == simulate(planned).makespan_ns * 1e-9
    assert found.measured_s == pytest.approx(simulate(really).makespan_ns * 1e-9)
    assert found.replayed_s == pytest.approx(found.measured_s)
    alone = replayed_s(measured, really.warmups, really.microbatches, really.schedule)
    assert alone == pytest.approx(found.measured_s)
    return found


def uneven(seed: int, p: int, q: int, v: int) -> PipelineTimes:
    """Draw chunks that differ, with the same transfers over a boundary."""
    random = Random(seed)
    forward, backward = (
        tuple(tuple(random.randint(0, 90) * MS for _ in range(v)) for _ in range(p))
        for _ in range(2)
    )
    kappa = [random.randint(0, 40) * MS for _ in range(p)]
    transfer = tuple((each,) * v for each in kappa)
    even = chunked(random, p, q, v)
    assert even.chunks is not None
    own = Uneven(
        forward_ns=forward,
        backward_ns=backward,
        transfer_ns=transfer,
        occupancy_ns=transfer,
    )
    return replace(
        even,
        forward_ns=tuple(-(-sum(each) // v) for each in forward),
        backward_ns=tuple(-(-sum(each) // v) for each in backward),
        transfer_ns=tuple(kappa[:-1]),
        occupancy_ns=tuple(kappa[:-1]),
        chunks=Chunks(
            count=v,
            way_back_ns=kappa[-1],
            way_back_occupancy_ns=kappa[-1],
            uneven=own,
        ),
    )


@pytest.mark.parametrize("seed", range(8))
def test_chunks_that_differ_explain_themselves(seed: int) -> None:
    planned, really = uneven(seed, 3, 6, 2), uneven(100 + seed, 3, 6, 2)
    assert planned.chunks is not None
    assert planned.chunks.uneven is not None
    assert really.chunks is not None
    assert really.chunks.uneven is not None
    measured = measured_as(really)
    written = Measured.from_json(measured.to_json())
    assert written == measured
    own = really.chunks.uneven
    for stage, *times in zip(
        written.stages, own.forward_ns, own.backward_ns, strict=True
    ):
        for kind, expected in zip(
            zip(*stage.by_chunk_s, strict=True), times, strict=True
        ):
            assert kind == pytest.approx([each * 1e-9 for each in expected])
    found = explained(planned, really, measured)
    passes = replace(
        planned.chunks.uneven, forward_ns=own.forward_ns, backward_ns=own.backward_ns
    )
    mixed = replace(planned, chunks=replace(planned.chunks, uneven=passes))
    assert found.passes_s == pytest.approx(simulate(mixed).makespan_ns * 1e-9)


def split(seed: int, schedule: str) -> PipelineTimes:
    """Draw a pipeline of three stages and five micro-batches, over links in turn."""
    random = Random(seed)
    make = split_pipeline if schedule == "zb-h1" else folded_pipeline
    made = replace(make(random, stages=3), microbatches=5)
    return replace(made, occupancy_ns=made.transfer_ns)


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-v"])
@pytest.mark.parametrize("seed", range(8))
def test_gradients_of_weights_that_run_later_explain_themselves(
    seed: int, schedule: str
) -> None:
    planned, really = split(seed, schedule), split(100 + seed, schedule)
    measured = measured_as(really)
    assert really.weight_ns is not None
    for number, stage in enumerate(measured.to_json()["stages"]):
        assert stage["weight_s"] == pytest.approx(really.weight_ns[number] * 1e-9)
        assert stage["backward_s"] == pytest.approx(really.backward_ns[number] * 1e-9)
        assert ("first_chunk_s" in stage) == (schedule == "zb-v")
    explained(planned, really, measured)


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-v"])
def test_gradients_of_weights_may_take_more_than_half(schedule: str) -> None:
    """The simulator has them take at most half; what they exceed counts as B."""
    planned, really = split(1, schedule), split(2, schedule)
    assert really.weight_ns is not None
    measured = measured_as(really)
    stages = tuple(
        replace(
            stage,
            weight_s=0.9 * stage.backward_s,
            first_chunk_s=None
            if (first := stage.first_chunk_s) is None
            else (first[0], first[1], 0.9 * first[1]),
        )
        for stage in measured.stages
    )
    found = explain_run(planned, replace(measured, stages=stages))
    busy = sum(measured.stages[0].forward_s for _ in range(5))
    busy += sum(measured.stages[0].backward_s for _ in range(5))
    assert found.replayed_s > busy


PLANNED = pipeline(
    [10 * MS, 10 * MS],
    [20 * MS, 20 * MS],
    [5 * MS],
    microbatches=4,
    warmups=[2, 1],
    sync=[3 * MS, 0],
)


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"forward_ns": (10 * MS, 14 * MS)}, "passes of stages"),
        ({"backward_ns": (25 * MS, 20 * MS)}, "passes of stages"),
        ({"sync_ns": (9 * MS, 0)}, "gradients and optimizer"),
        ({"transfer_ns": (8 * MS,), "occupancy_ns": (8 * MS,)}, "boundaries"),
    ],
)
def test_a_difference_is_put_where_it_is(changed: dict[str, Any], name: str) -> None:
    found = explain_run(PLANNED, measured_as(replace(PLANNED, **changed)))
    for part, part_s in found.parts_s:
        if part == name:
            assert part_s > 1e-3
            assert part_s == pytest.approx(found.measured_s - found.predicted_s)
        else:
            assert part_s == pytest.approx(0, abs=1e-8)


def test_waiting_that_no_duration_has_is_the_rest() -> None:
    measured = measured_as(PLANNED)
    slow = replace(measured, iteration_s=tuple(t + 0.007 for t in measured.iteration_s))
    parts = dict(explain_run(PLANNED, slow).parts_s)
    assert parts.pop("none of these") == pytest.approx(0.007)
    assert list(parts.values()) == pytest.approx([0, 0, 0], abs=1e-8)


def test_transfers_occupy_their_link_as_long_as_predicted_in_proportion() -> None:
    """Where half of a transfer is latency, the next may begin after half of it."""
    planned = replace(PLANNED, occupancy_ns=(2 * MS,), transfer_ns=(4 * MS,))
    doubled = replace(planned, occupancy_ns=(4 * MS,), transfer_ns=(8 * MS,))
    measured = replace(measured_as(planned), boundaries_s=(0.008,))
    found = explain_run(planned, measured)
    assert found.replayed_s == pytest.approx(simulate(doubled).makespan_ns * 1e-9)
