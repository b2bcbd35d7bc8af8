"""Checkpoints: a file per rank and step, from which the same plan resumes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import torch
import torch.distributed as dist

from .optimizer import Optimizer


class Checkpoints:
    """The checkpoints of one rank, ``FOLDER/step-N/rank-R.pt``.

    The folder may be shared by all hosts or be local to each: ranks agree on the newest
    step of which each has its file. A file is complete or does not exist.

    Parameters
    ----------
    job
        Path of ``job.json``: a checkpoint of another job is refused.
    """

    def __init__(self, folder: Path, job: Path, optimizer: Optimizer) -> None:
        self.folder, self.optimizer = folder, optimizer
        self.name = f"rank-{dist.get_rank()}.pt"
        self.digest = hashlib.sha256(job.read_bytes()).hexdigest()

    def save(self, step: int) -> None:
        """Save the state from which step ``step`` starts."""
        path = self.folder / f"step-{step}" / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        content = {"job": self.digest, **self.optimizer.state()}
        torch.save(content, part)
        part.replace(path)

    def resume(self) -> int:
        """Load the newest checkpoint that all ranks have; return its step, else 0.

        Raises
        ------
        ValueError
            It is of another job.
        """
        step = newest(self.folder, [self.name])
        if not step:
            return 0
        path = self.folder / f"step-{step}" / self.name
        content = torch.load(path, map_location="cpu", weights_only=True)
        if content["job"] != self.digest:
            msg = f"{path} is of another job.json: name another --checkpoints folder"
            raise ValueError(msg)
        self.optimizer.load(content)
        return step


def newest(folder: Path, names: Iterable[str]) -> int:
    """Return the newest step of which all ranks have their files; 0 if there is none.

    Parameters
    ----------
    names
        The files that this rank reads; it may read none.
    """
    steps = [
        {
            int(path.parent.name.removeprefix("step-"))
            for path in folder.glob(f"step-*/{name}")
        }
        for name in names
    ]
    mine = set.intersection(*steps) if steps else None
    everyone: list[set[int] | None] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    known = [steps for steps in everyone if steps is not None]
    return max(set.intersection(*known), default=0) if known else 0
