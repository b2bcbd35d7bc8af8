"""Plans with experts run as planned, and train what one process would."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from hetopt.problem.training.dispatch import Dispatch
from tests.runtimes.test_torch_execution import (
    batch_of,
    check_messages,
    check_schedule,
    check_training,
    exported,
    planned_bytes,
    watched,
)
from tests.runtimes.torch_experts import is_routed
from tests.runtimes.torch_plans import EXPERTS

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.export.job import Job

pytestmark = pytest.mark.torch


def check_states(job: Job, result: dict[str, Any]) -> None:
    """Dense weights are updated in shares of their copies, experts in those of theirs.

    Shares of a row of weights are equal, so the last one may be padded.
    """
    strategy = job.stages[result["where"][0]].strategy
    copies = strategy.devices // (strategy.ep * strategy.etp)
    held: list[int] = [0, 0]
    for name, tensor in result["weights"].items():
        held[is_routed(name)] += tensor.numel()
    shards = (strategy.dp * strategy.cp, copies)
    if not job.problem.training.zero:
        shards = (1, 1)
    least = sum(count / parts for count, parts in zip(held, shards, strict=True))
    units = len({name.split(".")[1] for name in result["weights"]})
    assert least <= result["states"] < least + 2 * units


def planned_with_rows(job: Job, result: dict[str, Any]) -> float:
    """Return the activations of a rank in flight, of as many rows as experts got."""
    stage = job.stages[result["where"][0]]
    strategy, training = stage.strategy, job.problem.training
    experts = job.problem.model.experts
    assert experts is not None
    passes = min(stage.warmup, job.microbatches * job.plan.chunks)
    tokens = training.global_batch * training.seq_len // job.microbatches
    even = tokens * experts.per_token * strategy.etp / strategy.devices
    uneven = replace(training, moe=Dispatch(imbalance=2.0))
    twice = replace(job, problem=replace(job.problem, training=uneven))
    planned, of_twice = (planned_bytes(each, stage) for each in (job, twice))
    rows, most = result["rows"], 0.0
    held: list[int] = []
    for kind, number in result["order"]:
        held = [*held, number] if kind == "F" else [n for n in held if n != number]
        if len(held) == passes:
            most = max(most, sum(sum(rows[n]) for n in held))
    layers = sum(len(rows[n]) for n in range(passes))
    assert layers or not most
    share = most / (even * layers) if layers else 1.0
    return planned + (share - 1) * (of_twice - planned)


@pytest.mark.parametrize("name", EXPERTS)
def test_experts_train_as_one_process_would(name: str, tmp_path: Path) -> None:
    job = exported(EXPERTS[name], tmp_path / "out")
    batch = batch_of(job)
    found = watched(job, tmp_path / "out", batch)
    check_training(job, found, batch)
    check_run(job, found)


def test_sixteen_bits_keep_what_the_table_counts(tmp_path: Path) -> None:
    case = replace(EXPERTS["cut experts"], training={"precision": "bf16"})
    job = exported(case, tmp_path / "out")
    found = watched(job, tmp_path / "out", batch_of(job))
    check_run(job, found)
    for each in found:
        assert {x.dtype for x in each["weights"].values()} == {torch.bfloat16}
        assert {x.dtype for x in each["gradients"].values()} == {torch.float32}


def check_run(job: Job, found: list[dict[str, Any]]) -> None:
    """Passes, messages, memory and shares of the optimizer are the plan's."""
    check_schedule(job, found)
    check_messages(job, found)
    for each in found:
        ratio = each["bytes"] / planned_with_rows(job, each)
        assert 0.9 < ratio < 1.1, (each["where"], ratio)
        assert each["left"] == 0
        check_states(job, each)
    losses = found[-1]["losses"]
    assert losses[-1] < losses[0] - 0.01
