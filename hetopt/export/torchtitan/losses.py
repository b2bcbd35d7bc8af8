"""What TorchTitan cannot do of a plan."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hetopt.export.launcher import Loss
from hetopt.export.shared.architecture import architecture_losses, as_said
from hetopt.export.shared.kernels import FP8, UNFUSED_LOSS, choice_losses
from hetopt.export.shared.losses import group_loss, offload_losses, shard_copies
from hetopt.export.shared.one_mesh import (
    one_mesh_losses,
    recompute_loss,
    shared_head_losses,
)
from hetopt.export.torchtitan.mixture import mixture_losses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.export.job import Job
    from hetopt.problem.model.model import Model


def losses(job: Job) -> Iterator[Loss]:
    """Yield what TorchTitan cannot do of a plan."""
    yield from one_mesh_losses(job)
    yield from shared_head_losses(job)
    yield from recompute_loss(job)
    yield from offload_losses(job.clusters)
    model, training = job.problem.model, job.problem.training
    strategies = [stage.strategy for stage in job.stages]
    if any(each.recompute == "selective" for each in strategies) and not any(
        each.recompute == "full" for each in strategies
    ):
        yield Loss(
            "selective recomputation of the attention core",
            instead="TorchTitan's selective checkpointing, which keeps every other "
            "matrix multiplication's result",
        )
    if len(job.stages) == 1 and min(job.stages[0].warmup, job.microbatches) > 1:
        yield Loss(
            "all forward passes first in a pipeline of one stage",
            instead="each micro-batch's backward pass after its forward pass",
        )
    yield from _part_losses(job)
    yield from _zero_losses(job)
    yield from mixture_losses(job)
    yield from _model_losses(job)
    for cp, tp in sorted({(each.cp, each.tp) for each in strategies}):
        parts = (2 * cp if cp > 1 else 1) * tp
        if training.seq_len % parts:
            yield Loss(
                f"sequences of {training.seq_len} tokens with cp {cp}, tp {tp}: "
                f"they must be multiples of {parts}"
            )
    if training.optimizer != "adam":
        yield Loss(f"optimizer {training.optimizer}", instead="AdamW")
    yield from choice_losses(training, (FP8, UNFUSED_LOSS))
    if training.precision == "fp16":
        yield Loss("fp16: the loss is not scaled", instead="bf16")
    if model.tied and len(job.stages) > 1:
        yield Loss(
            "tied embeddings in a pipeline: its last stage has a head of its own",
            instead="an embedding and a head, which need more memory",
        )
    yield Loss(
        "attention across the documents of a sequence",
        instead="attention within each document, as it masks all language models",
    )


def _part_losses(job: Job) -> Iterator[Loss]:
    """Yield chunks of which TorchTitan cannot make parts of a model."""
    parts = [*pairwise((0, *(job.plan.cuts or ())))]
    if any(first == end for first, end in parts):
        yield Loss("an empty chunk: its optimizer refuses a part without parameters")
    last, cp = len(job.problem.model.units) - 1, job.stages[0].strategy.cp
    if cp > 1 and any(max(first, 1) >= min(end, last) for first, end in parts):
        yield Loss(f"a chunk without layers: cp {cp} needs attention in every part")


def can_copy(job: Job) -> bool:
    """Whether TorchTitan's meshes have the copies of shards that a job has.

    FSDP shards over context-parallel ranks, too: copies are of whole replicas.
    """
    strategy = job.stages[0].strategy
    copies = shard_copies(job.problem, strategy)
    return len(copies) == 1 and strategy.dp % max(copies) == 0


def _zero_losses(job: Job) -> Iterator[Loss]:
    """Yield how FSDP differs from the plan's ZeRO stage."""
    zero, strategy = max(job.zero_stages), job.stages[0].strategy
    piped, replicas = len(job.stages) > 1, strategy.dp * strategy.cp
    if len(shard_copies(job.problem, strategy)) == 1 and not can_copy(job):
        yield group_loss(job.problem, "its copies are of whole replicas")
    if zero == 0 and strategy.cp > 1:
        yield Loss(
            "ZeRO 0 with context parallelism: its FSDP shards over those ranks",
            instead="ZeRO 1 over them",
        )
    if zero > 1 and piped:
        yield Loss(
            f"ZeRO {zero} in a pipeline: weights are gathered once an iteration, "
            "gradients scattered after the last micro-batch",
            instead="ZeRO 1, which needs more memory",
        )
    if zero in (1, 2) and replicas > 1 and job.microbatches > 1 and not piped:
        yield Loss(
            f"ZeRO {zero} without a pipeline: weights are gathered, and gradients "
            "scattered, for every micro-batch",
            instead="gathering and scattering for every micro-batch, which takes "
            "longer",
        )


def said(model: Model) -> Model:
    """Return the model that TorchTitan's Llama trains: SwiGLU, RMSNorm, no biases.

    With experts it is TorchTitan's Qwen3, which may have norms of queries and keys.
    """
    scaling = model.architecture.rotary_scaling
    llama3 = scaling if scaling is not None and scaling.kind == "llama3" else None
    normed = model.architecture.qk_norm == "head" and model.experts is not None
    return as_said(
        model,
        # It rotates pairs of neighbours; pairs of halves only order weights otherwise.
        ("norm_eps", "rotary_base", "rotary_interleaved"),
        qk_norm="head" if normed else "none",
        rotary_scaling=None if model.positions else llama3,
    )


def _model_losses(job: Job) -> Iterator[Loss]:
    """Yield how the model differs from the one that TorchTitan trains."""
    model = job.problem.model
    yield from architecture_losses(model, said(model))
    if not model.gated or model.norm != "rms":
        yield Loss(f"model {model.name}: its Llama has SwiGLU and RMSNorm")
    if model.positions:
        yield Loss("learned positions: its Llama uses rotary embeddings")
