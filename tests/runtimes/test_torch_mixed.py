"""Clusters whose devices share no collective library train one model together.

Both libraries stand for themselves (``worker.Libraries``): a rank knows only its own
cluster's, and what leaves the cluster has to be a copy in its host's memory.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")

from hetopt.export.job import Job
from hetopt.export.torch.program import plain_attention
from hetopt.export.torch.program.devices import find_device
from hetopt.export.torch.program.failure import Refused
from hetopt.export.torch.program.job import ClusterPlan
from hetopt.problem.catalogue import accelerators
from tests.runtimes.test_torch_execution import (
    batch_of,
    check_memory,
    check_messages,
    check_schedule,
    check_training,
    joined,
    watched,
    written,
)
from tests.runtimes.torch_plans import ONE, PAIR, Case, job_of, side_by_side, start

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

DEVICES = ("A100-80GB", "Ascend-A2-64GB")

CASES = {
    "tensors to replicas": Case(
        schedule="virtual-1f1b",
        degrees=(PAIR, (2, 1, 1)),
        halls=(0, 1),
        layers=(2, 1),
        each=2,
    ),
    "gathered by a leader, tied": Case(
        schedule="virtual-1f1b",
        degrees=((2, 1, 1), PAIR),
        halls=(0, 1),
        layers=(1, 2),
        ways=("leader",),
        model={"tied": True},
    ),
    "split sequences": Case(
        schedule="1f1b",
        degrees=((1, 2, 1), (1, 2, 1)),
        halls=(0, 1),
        model={"kv_heads": 4},
    ),
    "two stages in each": Case(
        schedule="virtual-1f1b", degrees=(ONE,) * 4, halls=(0, 0, 1, 1)
    ),
    "two chunks, and back": Case(
        schedule="interleaved-1f1b",
        degrees=((2, 1, 1), PAIR),
        halls=(0, 1),
        chunks=2,
    ),
}


def mixed(job: Job) -> Job:
    """Return the job with A100s in its first cluster, and Ascends in its second."""
    known = accelerators()
    clusters = tuple(
        replace(cluster, accelerator=known[name])
        for cluster, name in zip(job.problem.clusters, DEVICES, strict=True)
    )
    return Job.of(replace(job.problem, clusters=clusters), job.plan)


@pytest.mark.parametrize("name", CASES)
def test_two_vendors_train_as_one_process(name: str, tmp_path: Path) -> None:
    job = written(mixed(job_of(CASES[name])), tmp_path / "out")
    batch = batch_of(job)
    found = watched(job, tmp_path / "out", batch)
    check_training(job, found, batch)
    check_memory(job, found)
    check_messages(job, found)
    if job.plan.chunks == 1:
        check_schedule(job, found)
    assert found[-1]["losses"][-1] < found[-1]["losses"][0] - 0.01
    hall = [rank.cluster for rank in job.placement.ranks]
    for rank, each in enumerate(found):
        # Everything between the clusters went through the hosts, and nothing else did.
        assert all(hall[to] != hall[rank] for to, _ in each["staged"])
    if not (job.problem.model.tied or CASES[name].ways):
        sent = sum(size for each in found for _, size in each["staged"])
        ends = [n for n, each in enumerate(job.stages) if crosses(job, n)]
        expected = sum(
            message[2]
            for each in found
            for message in each["messages"]
            if (each["where"][0], message[0]) in {(n, "send-forward") for n in ends}
            or ((each["where"][0] - 1) % len(job.stages), message[0])
            in {(n, "send-backward") for n in ends}
        )
        assert sent == expected > 0


def crosses(job: Job, stage: int) -> bool:
    """Whether the boundary behind a stage leads to the other cluster."""
    after = job.stages[(stage + 1) % len(job.stages)]
    return job.stages[stage].cluster != after.cluster


ALIKE = {"optimizer": "sgd"}
#: Pipelines side by side, and the devices of each node that each one has.
PIPELINES = {
    "each over both": (
        (
            Case(schedule="1f1b", degrees=(ONE, ONE), halls=(0, 1), layers=(2, 1)),
            Case(schedule="1f1b", degrees=(ONE, ONE), halls=(0, 1), layers=(1, 2)),
        ),
        ({"hall0": (4,), "hall1": (4,)},) * 2,
    ),
    "one on each": (
        (
            Case(schedule="1f1b", degrees=(PAIR,), layers=(2,), q=2),
            Case(schedule="1f1b", degrees=((2, 1, 1),), halls=(1,), layers=(2,), q=2),
        ),
        ({"hall0": (8,)}, {"hall1": (8,)}),
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_of_two_vendors_add_up_their_gradients(
    name: str, tmp_path: Path
) -> None:
    job = written(mixed(side_by_side(*PIPELINES[name])), tmp_path / "out")
    batch = batch_of(job)
    found = watched(job, tmp_path / "out", batch)
    hall = [rank.cluster for rank in job.placement.ranks]
    for rank, each in enumerate(found):
        assert all(hall[to] != hall[rank] for to, _ in each["staged"])
        assert each["staged"]
    for number, part in enumerate(job.pipelines):
        own = [each for each in found if each["pipeline"] == number]
        whole = replace(
            part, problem=replace(part.problem, training=job.problem.training)
        )
        check_training(whole, own, batch)
    one, other = (
        joined(part, [each for each in found if each["pipeline"] == number], "after")
        for number, part in enumerate(job.pipelines)
    )
    for key, value in one.items():
        torch.testing.assert_close(value, other[key], rtol=1e-6, atol=1e-7)


def test_a_rank_without_its_device_says_so_and_all_end(tmp_path: Path) -> None:
    written(mixed(job_of(CASES["tensors to replicas"])), tmp_path / "out")
    running = start(tmp_path / "out", "--steps", "1", cpu=False)
    printed = [each.communicate(timeout=60)[0] for each in running]
    assert all(each.returncode for each in running)
    told = [
        line
        for text in printed
        for line in text.splitlines()
        if line.startswith("rank ")
    ]
    first = [line for line in told if " ends: " not in line]
    assert len(first) == 1
    assert re.fullmatch(
        r"rank \d: cluster hall[01] runs on (cuda|npu) devices, and (PyTorch finds 0 "
        r"of these here, expected [12] or more|No module named 'torch_npu'); --cpu "
        "tries the plan on CPUs",
        first[0],
    )
    # torchrun has a traceback of its own, the rank has none.
    assert not any("find_device" in text for text in printed)


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        ("cuda", "PyTorch finds 0 of these here, expected 2 or more"),
        ("npu", "No module named 'torch_npu'"),
    ],
)
def test_a_device_that_is_not_there_is_named(device: str, reason: str) -> None:
    cluster = ClusterPlan(name="hall", device=device, backend="gloo", group=0)
    message = f"cluster hall runs on {device} devices, and {reason}; --cpu tries"
    with pytest.raises(Refused, match=message):
        find_device(cluster, 1)
    cpu = replace(cluster, device="cpu")
    assert find_device(cpu, 1) == torch.device("cpu")


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("groups", [1, 2])
def test_attention_written_out_is_that_of_the_kernel(causal: bool, groups: int) -> None:
    torch.manual_seed(0)
    m = 6 if causal else 9
    q, grad = torch.randn(2, 2, 4, 6, 8)
    k, v = torch.randn(2, 2, 4 // groups, m, 8)
    ops, fused = torch.ops.aten, [q, *(x.repeat_interleave(groups, 1) for x in (k, v))]
    expected = ops._scaled_dot_product_flash_attention_for_cpu(*fused, 0.0, causal)
    found = plain_attention.forward(q, k, v, causal)
    for own, other in zip(found, expected, strict=True):
        torch.testing.assert_close(own, other)
    out, sums = expected
    of_q, *of_others = ops._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, *fused, out, sums, 0.0, causal
    )
    own = plain_attention.backward([grad, q, out, sums], [k, v], causal)
    shared = [x.unflatten(1, (-1, groups)).sum(2) for x in of_others]
    for mine, other in zip(own, [of_q, *shared], strict=True):
        torch.testing.assert_close(mine, other)
