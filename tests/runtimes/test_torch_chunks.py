"""Stages of several chunks: hetopt's order is PyTorch's, and losses are 1F1B's."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from torch.distributed.pipelining.schedules import ScheduleInterleaved1F1B

from hetopt.check.plan.schedule.orders import most_held
from hetopt.export.torch.program.job import Job as ProgramJob
from hetopt.export.torch.program.passes import Passes
from hetopt.problem.training.choices import INTERLEAVED
from hetopt.schedule.orders import chunk_and_microbatch
from hetopt.schedule.run import simulate
from hetopt.schedule.times import Chunks, PipelineTimes
from hetopt.schedule.warmup import warmup_counts
from tests.runtimes.test_torch_execution import (
    batch_of,
    check_memory,
    check_messages,
    check_schedule,
    check_training,
    exported,
    watched,
)
from tests.runtimes.torch_plans import CASES, ONE, UNEVEN, Case

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

#: (p, q, v).
SHAPES = [(2, 2, 2), (2, 4, 3), (3, 6, 2), (4, 4, 2), (4, 8, 2), (4, 16, 4), (5, 20, 3)]

#: What PyTorch calls passes.
KINDS = {"FORWARD": "F", "FULL_BACKWARD": "B"}

#: Plans of several chunks.
SEVERAL = {**CASES, **UNEVEN}

#: One model and batch, on four stages of two chunks, of one, and on one.
CHUNKED = Case(schedule=INTERLEAVED, degrees=(ONE,) * 4, chunks=2, q=8)
WHOLE = Case(schedule="1f1b", degrees=(ONE,) * 4, layers=(2,) * 4, q=8)
ALONE = Case(schedule="1f1b", degrees=(ONE,), layers=(8,), q=8)


def warmups_of(p: int, q: int, v: int) -> tuple[int, ...]:
    return warmup_counts(
        INTERLEAVED,
        microbatches=q,
        crosses=[False] * (p - 1),
        round_trip_ns=[3] * p,
        transfer_ns=[0] * (p - 1),
        chunks=v,
    )


def simulated(p: int, q: int, v: int) -> list[list[tuple[str, int]]]:
    """Return the passes of each stage, in the order of their simulated starts."""
    times = PipelineTimes(
        schedule=INTERLEAVED,
        microbatches=q,
        forward_ns=(1,) * p,
        backward_ns=(2,) * p,
        transfer_ns=(0,) * (p - 1),
        occupancy_ns=(0,) * (p - 1),
        sync_ns=(0,) * p,
        warmups=warmups_of(p, q, v),
        chunks=Chunks(count=v, way_back_ns=0, way_back_occupancy_ns=0),
    )
    run = simulate(times)
    found = []
    for stage in range(p):
        starts = {("F", n): at for n, at in enumerate(run.starts_ns["F"][stage])}
        starts |= {("B", n): at for n, at in enumerate(run.starts_ns["B"][stage])}
        found.append(sorted(starts, key=lambda each: int(starts[each])))
    return found


def pytorch(p: int, q: int, v: int) -> dict[int, list[tuple[str, int, int]]]:
    """Return kind, virtual stage and micro-batch of each rank's actions, in order."""
    stages: list[Any] = [
        SimpleNamespace(
            num_stages=p * v,
            group_size=p,
            group_rank=0,
            stage_index=chunk * p,
            has_backward=True,
            submod=torch.nn.Identity(),
        )
        for chunk in range(v)
    ]
    schedule = ScheduleInterleaved1F1B(stages, q, loss_fn=torch.nn.MSELoss())
    return {
        rank: [
            (KINDS[each.computation_type.name], each.stage_index, each.microbatch_index)
            for each in actions
            if each is not None
        ]
        for rank, actions in schedule.pipeline_order.items()
    }


@pytest.mark.parametrize(("p", "q", "v"), SHAPES)
def test_pytorchs_interleaved_1f1b_orders_the_same_actions(
    p: int, q: int, v: int
) -> None:
    theirs = pytorch(p, q, v)
    warmups = warmups_of(p, q, v)
    passes = Passes(warmups=warmups, microbatches=q, chunks=v)
    for stage, ours in enumerate(simulated(p, q, v)):
        assert list(passes.of(stage)) == ours
        actions = []
        for kind, number in ours:
            chunk, microbatch = chunk_and_microbatch(number, p, v, folded=False)
            assert (chunk, microbatch) == passes.chunk_and_microbatch(number)
            actions.append((kind, chunk * p + stage, microbatch))
        assert actions == theirs[stage]


@pytest.mark.parametrize("name", [n for n, c in SEVERAL.items() if c.chunks > 1])
def test_chunks_hold_the_units_that_the_plan_says(name: str, tmp_path: Path) -> None:
    job = exported(SEVERAL[name], tmp_path / "out")
    (read,) = ProgramJob.read(tmp_path / "out/job.json")
    held = [read.chunk_units(number) for number in range(len(job.stages))]
    units = [unit for own in zip(*held, strict=True) for part in own for unit in part]
    assert units == list(range(len(job.problem.model.units)))
    planned = [job.plan.chunk_units(stage) for stage in job.stages]
    assert [tuple((r.start, r.stop) for r in own) for own in held] == planned


@pytest.mark.parametrize("name", UNEVEN)
def test_chunks_that_differ_run_as_planned(name: str, tmp_path: Path) -> None:
    case = UNEVEN[name]
    job = exported(case, tmp_path / "out")
    assert any(first == end for first, end in pairwise((0, *case.cuts)))
    batch = batch_of(job)
    found = watched(job, tmp_path / "out", batch)
    check_training(job, found, batch)
    check_schedule(job, found)
    check_memory(job, found)
    check_messages(job, found)
    one = Case(
        schedule="1f1b",
        degrees=(ONE,),
        layers=(job.problem.model.layers,),
        q=case.q,
        each=max(dp for dp, _, _ in case.degrees),
        model=case.model,
        training=case.training,
    )
    alone = exported(one, tmp_path / "alone")
    losses = watched(alone, tmp_path / "alone", batch)[-1]["losses"]
    assert found[-1]["losses"] == pytest.approx(losses, abs=5e-6)
    assert losses[-1] < losses[0] - 0.01


def test_losses_are_those_of_1f1b_and_of_one_process(tmp_path: Path) -> None:
    losses = {}
    for name, case in (("chunked", CHUNKED), ("whole", WHOLE), ("alone", ALONE)):
        job = exported(case, tmp_path / name)
        found = watched(job, tmp_path / name, batch_of(job))
        losses[name] = found[-1]["losses"]
        if name == "chunked":
            orders = [each["order"] for each in found]
    assert losses["chunked"] == pytest.approx(losses["whole"], abs=5e-6)
    assert losses["chunked"] == pytest.approx(losses["alone"], abs=5e-6)
    assert losses["chunked"][-1] < losses["chunked"][0] - 0.01

    p, q, v = 4, CHUNKED.q, CHUNKED.chunks
    assert orders == simulated(p, q, v)
    for stage, order in enumerate(orders):
        held: Counter[int] = Counter()
        for kind, number in order:
            chunk, _ = chunk_and_microbatch(number, p, v, folded=False)
            held[chunk] += 1 if kind == "F" else -1
            assert held[chunk] <= most_held(p, q, v, stage, chunk)
            assert held.total() <= warmups_of(p, q, v)[stage]
