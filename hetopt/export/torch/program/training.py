"""Training of a pipeline, as a part of the exported program."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

from hetopt.export.torch.program.model import HERE, Mesh, Stage

# The exported program goes on from here.


class Optimizer:
    """Adam or SGD; with ZeRO 1, each replica updates and keeps its share of it."""

    def __init__(self, stage: Stage, mesh: Mesh, lr: float) -> None:
        training = stage.job["training"]
        self.mesh = mesh
        self.parameters = list(stage.parameters())
        self.replicas = mesh.sizes["dp"] * mesh.sizes["cp"]
        self.sharded = training["zero"] > 0 and self.replicas > 1
        held = self.parameters
        if self.sharded:
            self.shard = nn.Parameter(self._share([p.data for p in held]).clone())
            held = [self.shard]
        if training["optimizer"] == "adam":
            self.inner: torch.optim.Optimizer = torch.optim.AdamW(held, lr=lr)
        else:
            self.inner = torch.optim.SGD(held, lr=lr, momentum=0.9)

    def _share(self, tensors: list[Tensor]) -> Tensor:
        flat = torch.cat([each.reshape(-1) for each in tensors])
        flat = F.pad(flat, (0, -len(flat) % self.replicas))
        return flat.chunk(self.replicas)[dist.get_rank(self.mesh.replicas)]

    def step(self) -> None:
        """Update the weights and forget the gradients."""
        if self.sharded:
            self.shard.grad = self._share([p.grad for p in self.parameters])
            self.inner.step()
            parts = [torch.empty_like(self.shard) for _ in range(self.replicas)]
            dist.all_gather(parts, self.shard.data, group=self.mesh.replicas)
            rest = torch.cat(parts)
            for parameter in self.parameters:
                own, rest = rest[: parameter.numel()], rest[parameter.numel() :]
                parameter.data.copy_(own.view_as(parameter))
        else:
            self.inner.step()
        for parameter in self.parameters:
            parameter.grad = None


def reduce_gradients(stage: Stage, mesh: Mesh) -> None:
    """Make gradients those of the whole batch."""
    tied = stage.job["model"]["tied"] and mesh.ends is not None
    for name, parameter in stage.named_parameters():
        if getattr(parameter, "partial_over_tp", False):
            dist.all_reduce(parameter.grad, group=mesh.tensor)
        if mesh.sizes["dp"] * mesh.sizes["cp"] > 1:
            dist.all_reduce(parameter.grad, group=mesh.replicas)
            parameter.grad /= mesh.sizes["dp"] * mesh.sizes["cp"]
        if tied and name in ("tok_embeddings.weight", "output.weight"):
            dist.all_reduce(parameter.grad, group=mesh.ends)


class Trainer:
    """One rank's stage, its schedule, and its share of every batch."""

    def __init__(self, job: dict[str, Any], csv: Path, device: torch.device) -> None:
        self.job, self.device, self.mesh = job, device, Mesh(job["mesh"])
        self.stage = Stage(job, self.mesh).to(device)
        stages = job["mesh"]["pp"]
        self.first, self.last = self.mesh.pp == 0, self.mesh.pp == stages - 1
        entering, leaving = self._example(self.first), self._example(False)
        pipelined = PipelineStage(
            self.stage,
            self.mesh.pp,
            stages,
            device,
            input_args=entering,
            output_args=self._logits() if self.last else leaving,
            group=self.mesh.pipeline,
        )
        self.schedule = _PipelineScheduleRuntime(
            [pipelined],
            n_microbatches=job["training"]["microbatches"],
            loss_fn=lambda out, target: F.cross_entropy(
                out.float().flatten(0, 1), target.flatten()
            ),
        )
        self.schedule._load_csv(str(csv))

    def _example(self, tokens: bool) -> Tensor:
        """Return what enters or leaves a stage with a micro-batch, without content."""
        training, mesh = self.job["training"], self.job["mesh"]
        each = training["global_batch"] // (training["microbatches"] * mesh["dp"])
        shape = (each, training["seq_len"] // mesh["cp"])
        if tokens:
            return torch.empty(shape, dtype=torch.int64, device="meta")
        # What requires a gradient gets one sent back.
        return torch.empty(
            (*shape, self.job["model"]["hidden"]),
            dtype=self.stage.dtype,
            device="meta",
            requires_grad=True,
        )

    def _logits(self) -> Tensor:
        hidden = self._example(False)
        return hidden.new_empty((*hidden.shape[:2], self.job["model"]["vocab"]))

    def backward(self, batch: Tensor) -> float | None:
        """Run all micro-batches; return the replica's loss on the last stage.

        Parameters
        ----------
        batch
            Tokens of the global batch and the one after each sequence, (B, s + 1).
        """
        replicas = self.job["mesh"]["dp"]
        own = batch.chunk(replicas)[self.mesh.dp]
        positions = self.stage.tokens_of(self.mesh.cp)
        inputs = (own[:, positions].to(self.device),) if self.first else ()
        losses: list[Tensor] = []
        if self.last:
            target = own[:, positions + 1].to(self.device)
            self.schedule.step(*inputs, target=target, losses=losses)
        else:
            self.schedule.step(*inputs)
        reduce_gradients(self.stage, self.mesh)
        return torch.stack(losses).mean().item() if losses else None


def main() -> None:
    """Train on made-up tokens and print the last stage's loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--lr", type=float, default=1e-4)
    options = parser.parse_args()
    job = json.loads((HERE / "job.json").read_text("utf-8"))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    trainer = Trainer(job, HERE / "schedule.csv", device)
    optimizer = Optimizer(trainer.stage, trainer.mesh, options.lr)
    for step in range(options.steps):
        generator = torch.Generator().manual_seed(step)
        shape = (job["training"]["global_batch"], job["training"]["seq_len"] + 1)
        batch = torch.randint(job["model"]["vocab"], shape, generator=generator)
        loss = trainer.backward(batch)
        optimizer.step()
        mesh = trainer.mesh
        if loss is not None and mesh.dp == mesh.cp == mesh.tp == 0:
            print(f"step {step}: loss {loss:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
