"""What ``job.json`` says: the model, the training, and every stage of the plan."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """One stage of the plan.

    Attributes
    ----------
    first, end
        Units ``first <= u < end``, counted from 0: the embedding, layers, the head.
    warmup
        Forward passes before the first backward pass.
    resharding
        How activations reach the next stage; None on the last one.
    """

    first: int
    end: int
    dp: int
    cp: int
    tp: int
    recompute: str
    zero: int
    warmup: int
    resharding: str | None

    @property
    def replicas(self) -> int:
        """Ranks with the same weights."""
        return self.dp * self.cp

    @property
    def devices(self) -> int:
        """Ranks of the stage."""
        return self.dp * self.cp * self.tp


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training job.

    Attributes
    ----------
    model
        Sizes: layers, hidden, heads, kv_heads, head_dim, ffn, vocab, gated, tied, norm,
        positions, granularity.
    precision
        ``bf16`` or ``fp32``, of weights and activations.
    gradients
        ``fp32`` or ``bf16``, of accumulated gradients.
    """

    model: dict[str, Any]
    global_batch: int
    seq_len: int
    microbatches: int
    precision: str
    optimizer: str
    gradients: str
    sequence_parallel: bool
    overlap_gradients: bool
    stages: tuple[StagePlan, ...]
    tested_with: str

    @classmethod
    def read(cls, path: Path) -> Job:
        """Read ``job.json`` as hetopt wrote it."""
        content = json.loads(path.read_text("utf-8"))
        stages = tuple(StagePlan(**each) for each in content["stages"])
        return cls(
            model=content["model"],
            stages=stages,
            tested_with=content["tested_with"]["torch"],
            **content["training"],
        )

    @property
    def dtype(self) -> torch.dtype:
        """Of weights and activations."""
        return torch.bfloat16 if self.precision == "bf16" else torch.float32

    @property
    def units(self) -> int:
        """Units of the model: embedding, layers, head."""
        return int(self.model["layers"]) + 2

    @property
    def sequences(self) -> int:
        """Sequences of one micro-batch, over all replicas."""
        return self.global_batch // self.microbatches

    @property
    def world_size(self) -> int:
        """Ranks of all stages."""
        return sum(stage.devices for stage in self.stages)

    def version_note(self) -> str:
        """Say that this is another PyTorch than the one tested; empty if it is not."""
        here = ".".join(torch.__version__.split("+")[0].split(".")[:2])
        if here == self.tested_with:
            return ""
        return (
            f"note: this is PyTorch {torch.__version__}, and the program was tested "
            f"with {self.tested_with}; if it fails, install torch=={self.tested_with}.*"
        )
