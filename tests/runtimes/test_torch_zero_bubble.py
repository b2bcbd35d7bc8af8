"""Gradients of weights that run later: plans of zb-h1 and zb-v run as planned."""

from __future__ import annotations

from collections import Counter
from operator import mul
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from hetopt.check.plan.pricing import split_bytes
from hetopt.cost.memory import weight_bytes
from hetopt.cost.recompute import activation_bytes
from hetopt.cost.shapes import Shape
from hetopt.export.torch.program import later
from hetopt.export.torch.program.experts import Grouped, Logits
from hetopt.export.torch.program.operations import Columns, Rows, linear
from hetopt.export.torch.program.region import Region
from hetopt.export.torch.program.stage import _split_linears
from hetopt.schedule.orders import FOLDS, Orders, most_ahead
from hetopt.schedule.warmup import held_at_ends, held_together
from tests.runtimes.test_torch_execution import (
    batch_of,
    check_training,
    exported,
    watched,
)
from tests.runtimes.torch_plans import ONE, PAIR, Case
from tests.runtimes.zero_bubble_plans import ZERO_BUBBLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hetopt.export.job import Job

pytestmark = pytest.mark.torch

#: What is not the weight of a multiplication.
VECTORS = ("norm_weight", "tokens", "positions", "_bias")

#: One model and batch: on four stages, folded on two, and on one.
SPLIT = Case(schedule="zb-h1", degrees=(ONE,) * 4, layers=(2,) * 4, q=6)
CUT = Case(schedule="zb-h1", degrees=(PAIR, ONE), blocks=(2, 4), q=3)
FOLDED = Case(schedule="zb-v", degrees=(ONE,) * 2, layers=(2,) * 2, q=6)
ALONE = Case(schedule="1f1b", degrees=(ONE,), layers=(8,), q=6)


def is_folded(job: Job) -> bool:
    return job.plan.schedule in FOLDS


def block_of(job: Job) -> str:
    return FOLDS.get(job.plan.schedule, "")


def planned_orders(job: Job) -> Orders:
    return Orders(
        warmups=tuple(stage.warmup for stage in job.stages),
        microbatches=job.microbatches,
        chunks=2 if is_folded(job) else 1,
        folded=is_folded(job),
        block=block_of(job),
        splits=True,
    )


def check_order(job: Job, found: list[dict[str, Any]]) -> None:
    """Passes run in the plan's order, and no more are held than planned."""
    p, q = len(job.stages), job.microbatches
    for each in found:
        stage, order = each["where"][0], each["order"]
        assert order == list(planned_orders(job).of(stage))
        held: Counter[str] = Counter()
        for kind, number in order:
            if kind == "B":
                held["in flight"] -= 1
                held["waiting"] += 1
            elif kind == "F":
                held["in flight"] += 1
                held[f"chunk {number % 2}"] += 1
            else:
                held["waiting"] -= 1
                held[f"chunk {number % 2}"] -= 1
            both = held["in flight"] + held["waiting"]
            ahead = min(job.stages[stage].warmup, q)
            most = min(p, q)
            if is_folded(job):
                most, first = 2 * p, ahead
                if block_of(job):
                    most, first = most_ahead(block_of(job), p)[stage]
                assert held["chunk 0"] <= first
            assert both <= most
            assert held["in flight"] <= (most if is_folded(job) else ahead)


def planned_bytes(job: Job, number: int) -> float:
    """Return what a stage holds for all passes, as the table counts it."""
    stage, model = job.stages[number], job.problem.model
    strategy, training = stage.strategy, job.problem.training
    shape = Shape.of(
        [
            (
                job.microbatch_size(stage),
                *(strategy.cp, strategy.tp, strategy.ep, strategy.etp),
            )
        ],
        sequence_parallel=training.sequence_parallel,
    )
    p, q = len(job.stages), job.microbatches

    def of(unit: int) -> tuple[int, int]:
        kind = model.units[unit]
        kept = activation_bytes(model, training, kind, shape, strategy.recompute)
        waits = weight_bytes(model, training, kind, shape)
        return int(kept.item()), int(waits.item())

    units = range(stage.first_unit, stage.end_unit)
    if not is_folded(job):
        return sum(split_bytes(*of(unit), stage.warmup, p, q) for unit in units)
    total = 0
    for unit in units:
        down, up = of(unit), of(len(model.units) - 1 - unit)
        if unit == 0:
            ends = held_at_ends(job.plan.schedule, p, q, 2)
            total += ends[0] * max(down) + ends[1] * max(up)
        else:
            sizes = *down, max(down), *up, max(up)
            counts = held_together(job.plan.schedule, p, q)[number]
            total += max(sum(map(mul, each, sizes)) for each in counts)
    return total


def imbalance(found: list[dict[str, Any]]) -> float:
    """Return the most rows that experts of a rank got over the mean; 1 without any."""
    rows = [count for each in found for passed in each["rows"] for count in passed]
    return max(rows) / fmean(rows) if rows else 1.0


def check_memory(job: Job, found: list[dict[str, Any]]) -> None:
    """Ranks keep at once what is planned, within 10%; nothing is left over.

    With one chunk a stage and full recomputation the plan holds a layer's work for
    every pass in flight, which one at a time has.
    """
    for each in found:
        stage = each["where"][0]
        ratio = each["bytes"] / planned_bytes(job, stage)
        full = job.stages[stage].strategy.recompute == "full" and not is_folded(job)
        assert (0.6 if full else 0.9) < ratio < 1.1 * imbalance(found), ratio
        assert each["left"] == 0


def check_messages(job: Job, found: list[dict[str, Any]]) -> None:
    """Every boundary has the whole tensor on either side, once per pass."""
    p, q, training = len(job.stages), job.microbatches, job.problem.training
    tokens = training.global_batch * training.seq_len // q
    size = tokens * job.problem.model.hidden * 4
    moved: Counter[tuple[str, int, int]] = Counter()
    for each in found:
        for name, number, sent, received in each["messages"]:
            end, _, way = name.partition("-")
            moved[name, each["where"][0], number] += sent if end == "send" else received
    expected: dict[tuple[str, int, int], int] = {}
    for stage in range(p):
        for kind, way in (("F", "forward"), ("B", "backward")):
            for number in range(q * (2 if is_folded(job) else 1)):
                target = planned_orders(job).target(kind, stage, number)
                if target is not None and target[0] != stage:
                    expected[f"send-{way}", stage, number] = size
                    expected[f"receive-{way}", target[0], number] = size
    if all(stage.resharding in ("p2p", None) for stage in job.stages):
        assert moved == expected
    else:
        assert moved.keys() == expected.keys()


@pytest.mark.parametrize("name", ZERO_BUBBLE)
def test_a_plan_runs_as_planned(name: str, tmp_path: Path) -> None:
    job = exported(ZERO_BUBBLE[name], tmp_path / "out")
    batch = batch_of(job)
    found = watched(job, tmp_path / "out", batch)
    check_training(job, found, batch)
    check_order(job, found)
    check_messages(job, found)
    check_memory(job, found)
    losses = next(each["losses"] for each in found if each["losses"][0] is not None)
    assert losses[-1] < losses[0] - 0.01


def test_layers_may_be_cut(tmp_path: Path) -> None:
    job = exported(CUT, tmp_path / "out")
    batch = batch_of(job)
    found = watched(job, tmp_path / "out", batch)
    check_training(job, found, batch)
    check_order(job, found)
    check_memory(job, found)


def test_losses_are_those_of_one_process(tmp_path: Path) -> None:
    losses, added = {}, []
    for name, case in (("split", SPLIT), ("folded", FOLDED), ("alone", ALONE)):
        job = exported(case, tmp_path / name)
        found = watched(job, tmp_path / name, batch_of(job))
        (losses[name],) = (
            each["losses"] for each in found if each["losses"][0] is not None
        )
        added += [each["added"] for each in found if each["added"]]
    assert losses["split"] == pytest.approx(losses["alone"], abs=5e-6)
    assert losses["folded"] == pytest.approx(losses["alone"], abs=5e-6)

    # B adds to vectors alone, and W to matrices alone.
    assert len(added) == 6
    for passes in added:
        by_kind: dict[str, set[str]] = {"F": set(), "B": set(), "W": set()}
        for kind, _, names in passes:
            by_kind[kind] |= set(names)
        assert not by_kind["F"]
        assert by_kind["B"]
        assert all(name.endswith(VECTORS) for name in by_kind["B"])
        assert by_kind["W"]
        assert not any(name.endswith(VECTORS) for name in by_kind["W"])


ALL = Region(group=None, size=1, rank=0, splits=False)


def weights_of(*shapes: tuple[int, ...]) -> list[Any]:
    return [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]


MULTIPLICATIONS: dict[str, tuple[list[tuple[int, ...]], Callable[..., Any]]] = {
    "columns": (
        [(6, 4), (5, 4)],
        lambda x, *w: torch.cat(Columns.apply(x[None], ALL, False, *w), -1),
    ),
    "rows": ([(6, 4)], lambda x, w: Rows.apply(x[None], ALL, w)),
    "router": ([(6, 4)], lambda x, w: Logits.apply(x, w, None)),
    "experts": (
        [(2, 6, 4), (2, 5, 4)],
        lambda x, *w: torch.cat(Grouped.apply(x, [3, 8], *w), -1),
    ),
    "one matrix": ([(6, 4)], lambda x, w: linear(x, w)),
}


@pytest.mark.parametrize("name", MULTIPLICATIONS)
def test_backward_leaves_gradients_of_weights_to_later(name: str) -> None:
    torch.manual_seed(0)
    shapes, multiply = MULTIPLICATIONS[name]
    weights, x = weights_of(*shapes), torch.randn(8, 4, requires_grad=True)
    multiply(x, *weights).square().sum().backward()
    whole = [x.grad, *(each.grad for each in weights)]
    for each in (x, *weights):
        each.grad = None

    y = multiply(x, *weights).square().sum()
    with later.put_aside() as aside:
        y.backward()
    torch.testing.assert_close(x.grad, whole[0])
    assert all(each.grad is None for each in weights)
    assert later.parameters_of(aside) == set(weights)
    later.run_aside(aside)
    for each, expected in zip(weights, whole[1:], strict=True):
        torch.testing.assert_close(each.grad, expected)


def test_linears_of_a_users_unit_run_later() -> None:
    torch.manual_seed(0)
    frozen = torch.nn.Linear(4, 4).requires_grad_(False)
    unit = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), frozen)
    x = torch.randn(3, 4)
    unit(x).square().sum().backward()
    whole = {name: each.grad for name, each in unit.named_parameters()}
    unit.zero_grad()
    _split_linears(unit)
    y = unit(x).square().sum()
    with later.put_aside() as aside:
        y.backward()
    assert unit[0].weight.grad is None
    torch.testing.assert_close(unit[1].weight.grad, whole["1.weight"])
    later.run_aside(aside)
    for name, each in unit.named_parameters():
        if not name.startswith("2."):
            torch.testing.assert_close(each.grad, whole[name])
    assert frozen.weight.grad is None
