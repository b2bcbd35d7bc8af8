"""What we export for PyTorch runs, and learns what the unsplit model learns.

Each case is exported, and started by the bundle's own scripts: one torchrun per node,
unequal numbers of processes, all nodes on this machine. Gradients of every rank are
put together and compared with those of a plain model that knows nothing of ranks.
"""

import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F

from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.torch.launcher import LAUNCHER
from hetopt.plans import Pipeline, Plan, Stage, Strategy
from hetopt.problem.model import Model
from hetopt.problem.problem import Problem
from hetopt.problem.training import Optimizer, Recompute
from tests.export.jobs import draw_job

pytestmark = pytest.mark.runtimes

WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A pipeline: per stage layers, warm-up and recomputation; (d, c, t) of all.

    ``nodes`` are devices per node and number of nodes of every cluster, ``hosted``
    the stages on each.
    """

    layers: tuple[int, ...]
    warmups: tuple[int, ...]
    degrees: tuple[int, int, int] = (1, 1, 1)
    recompute: tuple[Recompute, ...] | None = None
    q: int = 4
    zero: int = 1
    nodes: tuple[tuple[int, int], ...] = ((4, 1),)
    hosted: tuple[int, ...] | None = None
    optimizer: Optimizer = "adam"
    model: dict[str, Any] = field(default_factory=dict)


CASES = {
    # Nodes of 2, 1 and 1 processes; warm-ups that are no named schedule's.
    "own-warm-ups": Case(
        layers=(3, 2, 2, 1),
        warmups=(6, 4, 3, 1),
        q=6,
        nodes=((2, 1), (1, 2)),
        hosted=(2, 2),
        recompute=("none", "full", "selective", "none"),
    ),
    "replicas": Case(
        layers=(1, 2),
        warmups=(3, 1),
        degrees=(2, 1, 2),
        nodes=((4, 2),),
        q=3,
        recompute=("selective", "full"),
    ),
    # Fewer key-value heads than ranks, a tied head on another stage than its table,
    # split sequences with learned positions, all forward passes first.
    "gpt": Case(
        layers=(1, 1),
        warmups=(4, 4),
        degrees=(1, 2, 2),
        nodes=((4, 2),),
        zero=0,
        optimizer="sgd",
        model={
            "gated": False,
            "norm": "layer",
            "positions": 24,
            "tied": True,
            "heads": 4,
            "kv_heads": 1,
            "head_dim": 8,
        },
    ),
}


# A job written out.
def job_of(case: Case) -> Job:
    """Return the job; placement is as for any plan."""
    drawn = draw_job(0, alike=True).problem
    model = Model(
        name="tiny",
        layers=sum(case.layers),
        **{
            "hidden": 32,
            "heads": 4,
            "kv_heads": 2,
            "head_dim": 8,
            "ffn": 48,
            "vocab": 97,
            **case.model,
        },
    )
    clusters = tuple(
        replace(
            drawn.clusters[0],
            name=f"hall{number}",
            nodes=count,
            devices_per_node=each,
            max_tp=each,
            hosts=None,
        )
        for number, (each, count) in enumerate(case.nodes)
    )
    dp, cp, tp = case.degrees
    training = replace(
        drawn.training,
        global_batch=2 * dp * case.q,
        seq_len=16,
        precision="fp32",
        zero=case.zero,
        optimizer=case.optimizer,
        schedule="auto",
    )
    problem = Problem(
        name="tiny",
        model=model,
        clusters=clusters,
        links=drawn.links,
        training=training,
    )
    hosted = case.hosted or (len(case.layers),)
    homes = [c.name for c, n in zip(clusters, hosted, strict=True) for _ in range(n)]
    stages, end = [], 1
    for number, count in enumerate(case.layers):
        last = number + 1 == len(case.layers)
        first, end = (end if number else 0), end + count
        stages.append(
            Stage(
                cluster=homes[number],
                first_unit=first,
                end_unit=end + last,
                strategy=Strategy(
                    dp=dp,
                    cp=cp,
                    tp=tp,
                    recompute=case.recompute[number] if case.recompute else "none",
                ),
                warmup=case.warmups[number],
                resharding=None if last else "p2p",
            )
        )
    plan = Plan(
        schedule="auto",
        pipelines=(Pipeline(microbatches=case.q, stages=tuple(stages)),),
        problem_digest="0" * 64,
        table_digest="0" * 64,
    )
    return Job.of(problem, plan)


def launch(folder: Path, *arguments: str) -> list[str]:
    """Start every node's script on this machine; return what each printed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    running = [
        subprocess.Popen(
            [str(script), *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for script in sorted(folder.glob("nodes/*.sh"))
    ]
    try:
        printed = [each.communicate(timeout=300)[0] for each in running]
    finally:
        for each in running:
            each.kill()
    for each, text in zip(running, printed, strict=True):
        assert each.returncode == 0, text
    return printed


def exported(case: Case, folder: Path) -> Job:
    job = job_of(case)
    assert not list(LAUNCHER.losses(job))
    write_folder(str(folder), bundle(job, LAUNCHER, allow_lossy=False))
    return job


def whole(name: str, parts: list[Any], model: Model) -> Any:
    """Put the shares of tensor-parallel ranks together; the rest is equal on all."""
    if len(parts) == 1:
        return parts[0]
    replicated = model.kv_heads < len(parts) and (".k." in name or ".v." in name)
    if ".columns." in name and not replicated:
        return torch.cat(parts, 0)
    if ".rows." in name and name.endswith("weight"):
        return torch.cat(parts, 1)
    for part in parts[1:]:
        torch.testing.assert_close(part, parts[0])
    return parts[0]


def plain(weights: dict[str, Any], tokens: Any, model: Model) -> Any:
    """Return logits of a transformer as textbooks have it, (sequences, tokens, V)."""

    def norm(x: Any, name: str) -> Any:
        if model.norm == "rms":
            scale = x.pow(2).mean(-1, keepdim=True).add(1e-5).rsqrt()
            return x * scale * weights[f"{name}.weight"]
        centred = x - x.mean(-1, keepdim=True)
        spread = centred.pow(2).mean(-1, keepdim=True).add(1e-5).sqrt()
        return centred / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(x: Any, name: str) -> Any:
        bias = weights.get(f"{name}.bias", 0)
        return x @ weights[f"{name}.weight"].T + bias

    def turned(x: Any) -> Any:
        half = model.head_dim // 2
        pairs = torch.complex(x[..., :half], x[..., half:])
        angle = torch.arange(x.shape[1])[:, None, None] * 10000.0 ** (
            -torch.arange(half) / half
        )
        pairs = pairs * torch.polar(torch.ones_like(angle), angle)
        return torch.cat((pairs.real, pairs.imag), -1)

    length = tokens.shape[1]
    x = weights["tok_embeddings.weight"][tokens]
    if model.positions:
        x = x + weights["positions.weight"][:length]
    hidden = torch.full((length, length), float("-inf")).triu(1)
    for layer in range(model.layers):
        at = f"layers.{layer}"
        inner = norm(x, f"{at}.norms.0")
        q, k, v = (
            linear(inner, f"{at}.columns.{n}").unflatten(-1, (-1, model.head_dim))
            for n in "qkv"
        )
        if not model.positions:
            q, k = turned(q), turned(k)
        k, v = (e.repeat_interleave(q.shape[2] // k.shape[2], dim=2) for e in (k, v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / model.head_dim**0.5 + hidden
        mixed = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).flatten(2)
        x = x + linear(mixed, f"{at}.rows.attention")
        inner = norm(x, f"{at}.norms.1")
        up = linear(inner, f"{at}.columns.up")
        if model.gated:
            gate = linear(inner, f"{at}.columns.gate")
            up = gate * gate.sigmoid() * up
        else:
            up = F.gelu(up)
        x = x + linear(up, f"{at}.rows.mlp")
    x = norm(x, "norm")
    head = "tok_embeddings" if model.tied else "output"
    return x @ weights[f"{head}.weight"].T


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_unsplit_model(name: str, tmp_path: Path) -> None:
    case, folder = CASES[name], tmp_path / "out"
    job = exported(case, folder)
    model, training = job.problem.model, job.problem.training
    shutil.move(folder / "train.py", folder / "program.py")
    shutil.copy(WORKER, folder / "train.py")
    generator = torch.Generator().manual_seed(1)
    shape = (training.global_batch, training.seq_len + 1)
    batch = torch.randint(model.vocab, shape, generator=generator)
    torch.save(batch, folder / "batch.pt")
    launch(folder)

    found = [torch.load(folder / f"rank-{r}.pt") for r in range(job.world_size)]
    for rank, result in zip(job.placement.ranks, found, strict=True):
        assert result["where"] == (rank.stage, rank.dp, rank.cp, rank.tp)
    dp, cp, tp = case.degrees
    replicas: dict[str, list[dict[str, Any]]] = {}
    for kind in ("weights", "gradients", "after"):
        for start in range(0, dp * cp * tp, tp):
            full: dict[str, Any] = {}
            for stage in range(len(case.layers)):
                first = stage * dp * cp * tp + start
                ranks = found[first : first + tp]
                for key in ranks[0][kind]:
                    full[key] = whole(key, [each[kind][key] for each in ranks], model)
            replicas.setdefault(kind, []).append(full)
    # Replicas agree before and after, on gradients as well.
    for kind, each in replicas.items():
        for other in each[1:]:
            torch.testing.assert_close(other, each[0], msg=kind)

    weights = {
        key: value.clone().requires_grad_()
        for key, value in replicas["weights"][0].items()
    }
    logits = plain(weights, batch[:, :-1], model)
    loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    used = [key for key in weights if key != "output.weight" or not model.tied]
    gradients = torch.autograd.grad(loss, [weights[key] for key in used])
    expected = dict(zip(used, gradients, strict=True))
    if model.tied:
        expected["output.weight"] = expected["tok_embeddings.weight"]
    torch.testing.assert_close(replicas["gradients"][0], expected, rtol=1e-4, atol=2e-7)
    losses = [each["loss"] for each in found if each["loss"] is not None]
    assert len(losses) == dp * cp * tp
    assert sum(losses) / len(losses) == pytest.approx(loss.item(), rel=1e-5)

    kinds = {"adam": torch.optim.AdamW, "sgd": torch.optim.SGD}
    optimizer = kinds[case.optimizer]([weights[key] for key in used], lr=1e-3)
    for key in used:
        weights[key].grad = replicas["gradients"][0][key].clone()
    optimizer.step()
    after = {key: weights[key].detach() for key in used}
    if model.tied:
        after["output.weight"] = after["tok_embeddings.weight"]
    torch.testing.assert_close(replicas["after"][0], after, rtol=1e-4, atol=1e-6)


def test_the_bundle_runs_as_it_is_with_unequal_nodes(tmp_path: Path) -> None:
    """Three nodes of 2, 1 and 1 processes; the last stage's node prints the loss."""
    case = replace(CASES["own-warm-ups"], layers=(1, 1, 1, 1), q=2)
    job = exported(case, tmp_path / "out")
    assert [node.slots for node in job.placement.nodes] == [2, 1, 1]
    printed = launch(tmp_path / "out", "--steps", "2")
    assert "step 0: loss" in printed[-1]
    assert "step 1: loss" in printed[-1]
    assert "step" not in printed[0]
