"""Gradients of weights that run later: PyTorch's schedule orders them alike."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.distributed.pipelining.schedules import ScheduleInterleavedZeroBubble

from hetopt.schedule.run import simulate
from hetopt.schedule.times import PipelineTimes

pytestmark = pytest.mark.torch

KINDS = {"FORWARD": "F", "BACKWARD_INPUT": "B", "BACKWARD_WEIGHT": "W"}
SHAPES = [(p, q) for p in (1, 2, 3, 4, 6) for q in (p, p + 1, 2 * p, 3 * p)]


def simulated(p: int, q: int) -> list[list[tuple[str, int]]]:
    """Kind and micro-batch of what every stage runs, in order, for equal stages."""
    times = PipelineTimes(
        schedule="zb-h1",
        microbatches=q,
        forward_ns=(2,) * p,
        backward_ns=(4,) * p,
        weight_ns=(2,) * p,
        transfer_ns=(0,) * (p - 1),
        occupancy_ns=(0,) * (p - 1),
        sync_ns=(0,) * p,
        warmups=tuple(range(p, 0, -1)),
    )
    run = simulate(times)
    found = []
    for stage in range(p):
        starts = {("F", m): at for m, at in enumerate(run.starts_ns["F"][stage])}
        starts |= {("B", m): at for m, at in enumerate(run.starts_ns["B"][stage])}
        starts |= {("W", m): at for m, at in enumerate(run.starts_ns["W"][stage])}
        found.append(sorted(starts, key=lambda each: int(starts[each])))
    return found


def pytorch(p: int, q: int) -> dict[int, list[tuple[str, int]]]:
    """Return kind and micro-batch of each rank's actions, in order."""
    stage: Any = SimpleNamespace(
        num_stages=p,
        group_size=p,
        group_rank=0,
        stage_index=0,
        has_backward=True,
        submod=torch.nn.Identity(),
    )
    made = ScheduleInterleavedZeroBubble([stage], q, loss_fn=torch.nn.MSELoss())
    return {
        rank: [
            (KINDS[each.computation_type.name], each.microbatch_index)
            for each in actions
            if each is not None
        ]
        for rank, actions in made.pipeline_order.items()
    }


@pytest.mark.parametrize(("p", "q"), SHAPES)
def test_pytorchs_zero_bubble_orders_the_same_actions(p: int, q: int) -> None:
    theirs = pytorch(p, q)
    for stage, ours in enumerate(simulated(p, q)):
        assert ours == theirs[stage]
