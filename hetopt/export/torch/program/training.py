"""The training loop: data, an iteration, a step, the loss."""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

# Optimizers import it. Its functions' defaults are the world's group if there is one
# by then, which would never end.
import torch.distributed.nn.functional
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from .boundaries import Boundaries
from .checkpoints import Checkpoints
from .devices import find_device
from .executor import Executor
from .failure import Watch
from .groups import Place
from .job import Job, cluster_of
from .measuring import Recorder
from .moving import Moving
from .optimizer import Optimizer
from .stage import BuildUnit, Stage
from .units import build_unit

#: The bundle's folder.
HERE = Path(__file__).resolve().parent.parent

#: Returns the global batch of a step, int64 (B, s + 1): the tokens of each sequence and
#: the next one. It depends on the step alone, so that a resumed run sees the same data.
Data = Callable[[int, Job], Tensor]


def made_up_tokens(step: int, job: Job) -> Tensor:
    """Return random tokens, with the step's number as the seed."""
    generator = torch.Generator().manual_seed(step)
    shape = (job.global_batch, job.seq_len + 1)
    return torch.randint(job.model["vocab"], shape, generator=generator)


class Trainer:
    """One rank: its stage, its schedule, and its share of the optimizer."""

    def __init__(
        self,
        jobs: tuple[Job, ...],
        device: torch.device,
        *,
        lr: float,
        build_unit: BuildUnit = build_unit,
    ) -> None:
        self.place = Place(jobs, dist.get_rank(), device)
        self.stage = Stage(self.place, build_unit).to(device)
        self.optimizer = Optimizer(self.place, self.stage, lr)
        self.boundaries = Boundaries(self.place)
        self.executor = Executor(
            self.place, self.stage, self.boundaries, self.optimizer.last_pass
        )

    def backward(self, batch: Tensor) -> float | None:
        """Run all micro-batches and reduce the gradients; return the loss.

        Parameters
        ----------
        batch
            Tokens of the global batch and the one after each sequence, (B, s + 1).

        Returns
        -------
        Mean loss per token of the global batch where the head is, else None.
        """
        loss = self.executor.run(batch, self.optimizer.scale.factor)
        self.optimizer.reduce()
        # After reducing: gradients need not wait for sends to the stage before.
        self.boundaries.finish()
        if not self.place.has_loss:
            return None
        if self.place.losses is not None:
            # Every rank of a tensor-parallel group has the same part.
            loss /= self.place.plan.tp
            self.place.losses.total(loss)
        elif self.place.copies.group is not None:
            dist.all_reduce(loss, group=self.place.copies.group)
        return float(loss)

    def close(self) -> None:
        """End what works beside this thread, and let go of the process groups."""
        self.boundaries.close()
        for bucket in self.optimizer.buckets:
            bucket.close()


def leave() -> None:
    """Leave the process groups once nothing refers to them, so that they end here.

    A thread of Gloo that is still at work when Python ends aborts the rank: it may own
    the last reference to a tensor, and it cannot have Python's lock any more.
    """
    gc.collect()
    dist.destroy_process_group()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train as job.json says.")
    add = parser.add_argument
    add("--steps", type=int, default=10, help="train up to this step")
    add("--lr", type=float, default=1e-4, help="learning rate")
    add(
        "--units", help="FILE:FUNCTION that builds a unit by index, as program/units.py"
    )
    add("--data", help="FILE:FUNCTION (step, job) -> tokens (B, s + 1)")
    add("--checkpoints", type=Path, help="folder to save to and to resume from")
    add(
        "--moved",
        nargs=3,
        type=Path,
        metavar=("CHECKPOINTS", "ANSWER", "MOVES"),
        help="go on from another plan's checkpoints: what hetopt replan printed with "
        "--json, and wrote with --moves",
    )
    add("--every", type=int, default=100, help="steps between two checkpoints")
    add("--times", type=Path, help="folder for what each rank measures, as hetopt run")
    add("--cpu", action="store_true", help="run all ranks on CPUs, for a trial")
    return parser.parse_args()


def load(name: str) -> Any:
    """Return the function that ``FILE:FUNCTION`` names.

    Raises
    ------
    ValueError
        There is no such file or function.
    """
    path, _, function = name.rpartition(":")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        msg = f"{name}: expected FILE.py:FUNCTION, with a file that exists"
        raise ValueError(msg)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, function):
        msg = f"{name}: {path} has no {function}"
        raise ValueError(msg)
    return getattr(module, function)


def train(
    jobs: tuple[Job, ...], device: torch.device, options: argparse.Namespace
) -> None:
    """Train up to ``--steps`` from the newest checkpoint, else ``--moved``, else 0."""
    build: BuildUnit = load(options.units) if options.units else build_unit
    data: Data = load(options.data) if options.data else made_up_tokens
    trainer = Trainer(jobs, device, lr=options.lr, build_unit=build)
    saved, first = None, 0
    if options.checkpoints:
        path = HERE / "job.json"
        saved = Checkpoints(options.checkpoints, path, trainer.optimizer)
        first = saved.resume()
    if options.moved and not first:
        before, answer, moves = options.moved
        first = Moving(before, answer, moves, trainer.optimizer).run()
    recorder = Recorder(trainer.executor, options.times) if options.times else None
    place = trainer.place
    for step in range(first, options.steps):
        batch = data(step, place.job)
        if recorder:
            recorder.begin()
        loss = trainer.backward(batch)
        trainer.optimizer.step()
        if recorder:
            recorder.end(loss)
        tells = place.pipeline == place.dp == place.cp == place.tp == 0
        if loss is not None and tells:
            print(f"step {step}: loss {loss:.6f}", flush=True)
        done = step + 1
        if saved and (done % options.every == 0 or done == options.steps):
            saved.save(done)
    if recorder:
        recorder.write()
    trainer.close()


def main() -> None:
    """Train in this rank, which torchrun started."""
    options = _options()
    jobs = Job.read(HERE / "job.json")
    if options.cpu:
        jobs = tuple(job.on_cpus() for job in jobs)
    store, rank, size = next(rendezvous("env://"))
    note = jobs[0].version_note()
    if note and rank == 0:
        print(note, file=sys.stderr, flush=True)
    with Watch(store, f"rank {rank}"):
        if size != jobs[-1].end_rank:
            msg = f"job.json has {jobs[-1].end_rank} ranks, torchrun started {size}"
            raise ValueError(msg)
        device = find_device(cluster_of(jobs, rank), int(os.environ["LOCAL_RANK"]))
        store.set_timeout(timedelta(minutes=30))
        dist.init_process_group(
            jobs[0].backend,
            store=dist.PrefixStore("ranks", store),
            rank=rank,
            world_size=size,
        )
        train(jobs, device, options)
        leave()
