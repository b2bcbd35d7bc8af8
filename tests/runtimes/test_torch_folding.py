"""Folded pipelines: PyTorch's schedule orders them alike."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.distributed.pipelining.schedules import ScheduleZBVZeroBubble

from hetopt.schedule.run import simulate
from tests.schedule.test_folding import alike

pytestmark = pytest.mark.torch

KINDS = {"FORWARD": "F", "BACKWARD_INPUT": "B", "BACKWARD_WEIGHT": "W"}
SHAPES = [(p, q) for p in (1, 2, 3, 4, 6) for q in (p + 1, 2 * p, 3 * p, 5 * p)]


def simulated(p: int, q: int) -> list[list[tuple[str, int, int]]]:
    """Kind, chunk and micro-batch of what every stage runs, for equal stages."""
    run = simulate(alike(p, q, 2, 2, 2))
    found = []
    for stage in range(p):
        starts: dict[tuple[str, int, int], int] = {}
        for kind, by_pass in (
            ("F", run.starts_ns["F"][stage]),
            ("B", run.starts_ns["B"][stage]),
            ("W", run.starts_ns["W"][stage]),
        ):
            starts |= {(kind, n % 2, n // 2): int(at) for n, at in enumerate(by_pass)}
        found.append(sorted(starts, key=lambda each: starts[each]))
    return found


def pytorch(p: int, q: int) -> dict[int, list[tuple[str, int, int]]]:
    """Return kind, chunk and micro-batch of each rank's actions, in order."""
    stages: list[Any] = [
        SimpleNamespace(
            num_stages=2 * p,
            group_size=p,
            group_rank=0,
            stage_index=index,
            has_backward=True,
            submod=torch.nn.Identity(),
        )
        for index in (0, 2 * p - 1)
    ]
    made = ScheduleZBVZeroBubble(stages, q, loss_fn=torch.nn.MSELoss())
    return {
        rank: [
            (
                KINDS[each.computation_type.name],
                int(each.stage_index >= p),
                each.microbatch_index,
            )
            for each in actions
            if each is not None
        ]
        for rank, actions in made.pipeline_order.items()
    }


@pytest.mark.parametrize(("p", "q"), SHAPES)
def test_pytorchs_zbv_orders_the_same_actions(p: int, q: int) -> None:
    theirs = pytorch(p, q)
    for stage, ours in enumerate(simulated(p, q)):
        assert ours == theirs[stage]
