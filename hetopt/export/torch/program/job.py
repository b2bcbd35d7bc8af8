"""The content of ``job.json``: the model, the training, every stage of the plan."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import lcm
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .orders import FOLDED_CHUNKS, FOLDS
from .passes import Passes

#: Units of a layer where stages may begin inside of it (granularity ``block``).
BLOCKS = ("attention", "mlp-up", "mlp-down")


@dataclass(frozen=True, kw_only=True)
class Carried:
    """One of the tensors that a boundary carries for each micro-batch.

    Attributes
    ----------
    width
        Numbers of a token.
    runs
        Equal runs of these numbers, which both stages' tensor-parallel ranks divide: a
        rank has all tokens of its cp rank, but some of the runs. 1: a rank has whole
        tokens, of which tensor parallelism gives it a part.
    """

    width: int
    runs: int = 1


@dataclass(frozen=True, kw_only=True)
class ClusterPlan:
    """What the ranks of a cluster run on, and which others they reach directly.

    Attributes
    ----------
    device
        Type of device, as PyTorch names it: ``cuda`` (NVIDIA's and, in builds for ROCm,
        AMD's), ``npu`` (Ascend) or ``cpu``.
    backend
        PyTorch's name of their collective library: ``nccl``, ``hccl`` or ``gloo``.
    group
        Clusters with the same number reach each other directly, others through the
        memory of their hosts.
    """

    name: str
    device: str
    backend: str
    group: int


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """One stage of the plan.

    Attributes
    ----------
    cluster
        Name of the cluster that has its ranks.
    ep, etp
        Ranks that routed experts are spread over, and that share each one's matrices.
    first, end
        Units ``first <= u < end``, counted from 0: the embedding, layers, the head;
        three units for each layer where granularity is ``block`` (``Job.kind``).
        Where stages hold several chunks, those of the first one, numbered as if it were
        the whole model, or, if chunks differ, those of all, numbered stage by stage
        (see ``Job.chunk_units``). In a folded pipeline, those of the way down.
    warmup
        Forward passes before the first backward pass.
    resharding
        How activations reach the next stage. None on the last one unless stages hold
        several chunks: then how they reach the first stage again.
    """

    cluster: str
    first: int
    end: int
    dp: int
    cp: int
    tp: int
    ep: int
    etp: int
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

    @property
    def expert_ranks(self) -> int:
        """Ranks that have all routed experts of a layer once."""
        return self.ep * self.etp


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training job, or one of its several pipelines.

    Attributes
    ----------
    global_batch, batch, first_sequence
        Sequences of an iteration: of all pipelines, of this one, of those before it.
    first_of_all
        Its first rank.
    clusters
        The clusters of all pipelines, by name.
    model
        Sizes: layers, hidden, heads, kv_heads, head_dim, ffn, vocab, gated, tied, norm,
        positions, granularity, norm_eps, rotary_base; and experts, as in a problem
        file, or None.
    precision
        ``bf16``, ``fp16`` or ``fp32``, of weights and activations.
    gradients
        ``fp32``, or ``bf16`` for 16-bit gradients in the precision of weights.
    chunks
        Parts of the model that every stage holds.
    cuts
        Where chunks differ: the end of each in the whole model, first the first chunks
        of all stages, then the second ones, and so on. None: all are alike.
    zero_bubble
        The schedule, if gradients of weights run later; else None. Under ``zb-v``,
        ``v-half`` and ``v-min`` the pipeline is folded: each stage holds a second chunk
        of the model.
    """

    model: dict[str, Any]
    clusters: dict[str, ClusterPlan]
    global_batch: int
    batch: int
    first_sequence: int
    first_of_all: int
    seq_len: int
    microbatches: int
    chunks: int
    zero_bubble: str | None
    precision: str
    optimizer: str
    gradients: str
    sequence_parallel: bool
    overlap_gradients: bool
    stages: tuple[StagePlan, ...]
    tested_with: str
    cuts: list[int] | None = None

    @classmethod
    def read(cls, path: Path) -> tuple[Job, ...]:
        """Read ``job.json`` as hetopt wrote it; return its pipelines, usually one."""
        content = json.loads(path.read_text("utf-8"))
        training = content["training"]
        clusters = {
            name: ClusterPlan(name=name, **each)
            for name, each in content["clusters"].items()
        }
        alone = {"stages": content.get("stages"), "batch": training["global_batch"]}
        found: list[Job] = []
        for own in content.get("pipelines", [alone]):
            last = found[-1] if found else None
            own["stages"] = tuple(StagePlan(**each) for each in own["stages"])
            found.append(
                cls(
                    model=content["model"],
                    clusters=clusters,
                    tested_with=content["tested_with"]["torch"],
                    first_sequence=last.first_sequence + last.batch if last else 0,
                    first_of_all=last.end_rank if last else 0,
                    **{**training, **own},
                )
            )
        return tuple(found)

    @property
    def dtype(self) -> torch.dtype:
        """The type of weights and activations."""
        known = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
        return known[self.precision]

    @property
    def is_mixed(self) -> bool:
        """Whether some clusters reach each other only through their hosts."""
        return len({each.group for each in self.clusters.values()}) > 1

    @property
    def backend(self) -> str:
        """PyTorch's backend for a process group of all ranks."""
        first = next(iter(self.clusters.values()))
        return "gloo" if self.is_mixed else first.backend

    def on_cpus(self) -> Job:
        """Return the job on CPUs; clusters reach each other as before."""
        clusters = {
            name: replace(each, device="cpu", backend="gloo")
            for name, each in self.clusters.items()
        }
        return replace(self, clusters=clusters)

    def cluster(self, stage: int) -> ClusterPlan:
        """Return the cluster of a stage."""
        return self.clusters[self.stages[stage].cluster]

    @property
    def units(self) -> int:
        """Units of the model: embedding, layers or their blocks, head."""
        each = 1 if self.model["granularity"] == "layer" else len(BLOCKS)
        return each * int(self.model["layers"]) + 2

    def kind(self, unit: int) -> str:
        """Return ``embedding``, ``layer`` or one of ``BLOCKS``, or ``head``."""
        if unit in (0, self.units - 1):
            return "head" if unit else "embedding"
        whole = self.model["granularity"] == "layer"
        return "layer" if whole else BLOCKS[(unit - 1) % len(BLOCKS)]

    def carried(self, boundary: int, chunk: int) -> tuple[Carried, ...]:
        """Return what a stage sends to the next one: the last unit's results.

        Behind the first matrix of the MLP that is the residual, and the inner
        activations, whose columns tensor parallelism splits on either side.

        Parameters
        ----------
        chunk
            Of the stage before the boundary.
        """
        hidden = Carried(width=self.model["hidden"])
        if self.kind(self.chunk_units(boundary)[chunk].stop - 1) != "mlp-up":
            return (hidden,)
        ends = self.stages[boundary], self.stages[(boundary + 1) % len(self.stages)]
        runs = lcm(*(each.tp for each in ends))
        return hidden, Carried(width=self.model["ffn"], runs=runs)

    @property
    def experts(self) -> dict[str, Any] | None:
        """Sizes and routing of routed experts; None if no layer has them."""
        found: dict[str, Any] | None = self.model["experts"]
        return found

    def is_routed(self, unit: int) -> bool:
        """Whether a unit is a layer with routed experts."""
        return (
            self.experts is not None
            and 0 < unit < self.units - 1
            and unit - 1 not in self.experts["dense_layers"]
        )

    @property
    def passes(self) -> Passes:
        """The order in which stages run their passes."""
        return Passes(
            warmups=tuple(stage.warmup for stage in self.stages),
            microbatches=self.microbatches,
            chunks=FOLDED_CHUNKS if self.is_folded else self.chunks,
            folded=self.is_folded,
            block=FOLDS.get(self.zero_bubble or "", ""),
            splits=self.zero_bubble is not None,
        )

    @property
    def is_folded(self) -> bool:
        """Whether micro-batches come back up the pipeline."""
        return self.zero_bubble in FOLDS

    @property
    def ties_ends(self) -> bool:
        """Whether two stages have the table of a tied model."""
        tied = bool(self.model["tied"])
        return tied and len(self.stages) > 1 and not self.is_folded

    @property
    def boundaries(self) -> int:
        """Number of boundaries; with several chunks, the last one leads to stage 0."""
        return len(self.stages) - (self.chunks == 1)

    def chunk_units(self, stage: int) -> list[range]:
        """Return the units of each chunk of a stage, numbered over the whole model.

        The embedding is in the first stage's first chunk, the head in the last stage's
        last; unless there are ``cuts``, all chunks of a stage have equally many layers.
        In a folded pipeline both ends are in the first stage, and the second chunk of a
        stage mirrors the first, counted from the head.
        """
        if self.cuts is not None:
            ends = [0, *self.cuts]
            places = range(stage, len(self.cuts), len(self.stages))
            return [range(ends[place], ends[place + 1]) for place in places]
        plan, end, last = self.stages[stage], self.stages[-1].end, self.chunks - 1
        if self.is_folded:
            back = range(self.units - plan.end, self.units - plan.first)
            return [range(plan.first, plan.end), back]
        return [
            range(
                max(plan.first, min(chunk, 1)) + chunk * (end - 2),
                min(plan.end, end - (chunk < last)) + chunk * (end - 2),
            )
            for chunk in range(self.chunks)
        ]

    @property
    def sequences(self) -> int:
        """Sequences of one micro-batch, over all replicas."""
        return self.batch // self.microbatches

    @property
    def end_rank(self) -> int:
        """The last rank plus one."""
        return self.first_rank(len(self.stages))

    def first_rank(self, stage: int) -> int:
        """Return the first rank of a stage; ``len(stages)`` gives ``end_rank``."""
        return self.first_of_all + sum(each.devices for each in self.stages[:stage])

    def ranks(self, stage: int) -> list[list[list[int]]]:
        """Return the ranks of a stage by dp, cp and tp."""
        plan, first = self.stages[stage], self.first_rank(stage)
        numbers = torch.arange(first, first + plan.devices)
        shaped: list[list[list[int]]] = numbers.reshape(
            plan.dp, plan.cp, plan.tp
        ).tolist()
        return shaped

    def tokens_of(self, stage: int, cp: int) -> Tensor:
        """Return the positions of the tokens of one cp rank of a stage.

        One piece from each end of the sequence, to balance causal attention.
        """
        ranks = self.stages[stage].cp
        if ranks == 1:
            return torch.arange(self.seq_len)
        pieces = torch.arange(self.seq_len).chunk(2 * ranks)
        return torch.cat([pieces[cp], pieces[2 * ranks - 1 - cp]])

    def rows(self, stage: int, dp: int) -> range:
        """Return the sequences of a micro-batch that a replica of a stage has."""
        each = self.sequences // self.stages[stage].dp
        return range(dp * each, (dp + 1) * each)

    def version_note(self) -> str:
        """Return a note if this is not the PyTorch that was tested; else ''."""
        here = ".".join(torch.__version__.split("+")[0].split(".")[:2])
        if here == self.tested_with:
            return ""
        return (
            f"note: this is PyTorch {torch.__version__}, and the program was tested "
            f"with {self.tested_with}; if it fails, install torch=={self.tested_with}.*"
        )


def cluster_of(jobs: Sequence[Job], rank: int) -> ClusterPlan:
    """Return the cluster of a rank."""
    return next(
        job.cluster(stage)
        for job in jobs
        for stage in range(len(job.stages))
        if rank < job.first_rank(stage + 1)
    )


def ranks_reached(jobs: Sequence[Job], group: int) -> Iterator[int]:
    """Yield the ranks of clusters with one ``group``, ascending."""
    for job in jobs:
        for stage in range(len(job.stages)):
            if job.cluster(stage).group == group:
                yield from range(job.first_rank(stage), job.first_rank(stage + 1))
