"""Stands in for a bundle's train.py: one iteration, then gradients are kept.

The bundle's own program is beside it as ``program.py``.
"""

import json
from pathlib import Path

import program  # type: ignore[import-not-found]
import torch
import torch.distributed as dist

HERE = Path(__file__).parent


def main() -> None:
    """Run one iteration on fixed tokens."""
    torch.set_num_threads(1)
    job = json.loads((HERE / "job.json").read_text())
    dist.init_process_group("gloo")
    trainer = program.Trainer(job, HERE / "schedule.csv", torch.device("cpu"))
    weights = {n: p.detach().clone() for n, p in trainer.stage.named_parameters()}
    loss = trainer.backward(torch.load(HERE / "batch.pt"))
    gradients = {n: p.grad for n, p in trainer.stage.named_parameters()}
    program.Optimizer(trainer.stage, trainer.mesh, 1e-3).step()
    mesh = trainer.mesh
    torch.save(
        {
            "where": (mesh.pp, mesh.dp, mesh.cp, mesh.tp),
            "loss": loss,
            "weights": weights,
            "gradients": gradients,
            "after": {n: p.detach() for n, p in trainer.stage.named_parameters()},
        },
        HERE / f"rank-{dist.get_rank()}.pt",
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
