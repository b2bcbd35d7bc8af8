"""Losses that several launchers have in common."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hetopt.export.launcher import ON_DEVICES, Loss

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from hetopt.export.job import Job
    from hetopt.export.launcher import Limits, Part
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.model.model import Model
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.dispatch import Dispatch

#: What is written if shards have copies that a runtime has not.
_NO_COPIES = "hetopt writes shards over all ranks that hold a weight"


def stages_named(first: int, end: int) -> str:
    """Return "stage 3" or "stages 3-5"; ``end`` is one past the last stage."""
    return f"stage {first}" if end == first + 1 else f"stages {first}-{end - 1}"


def listed(values: Iterable[object]) -> str:
    """Return "4, 4, 3"."""
    return ", ".join(map(str, values))


def by_stage(values: Iterable[int]) -> str:
    """Return "1" if all stages have the same value, else "1, 0, 1 by stage"."""
    values = list(values)
    return f"{listed(values)} by stage" if len(set(values)) > 1 else str(values[0])


def model_losses(model: Model) -> Iterator[Loss]:
    """Yield a loss if a model is not a decoder of tokens."""
    if not model.is_decoder_only:
        yield Loss(f"model {model.name}, which is no decoder-only model of tokens")


def part_losses(model: Model, trained: Collection[Part]) -> Iterator[Loss]:
    """Yield a loss if a model has parts that a runtime does not train."""
    parts: dict[Part, tuple[str, bool]] = {
        "experts": ("routed experts", model.experts is not None),
        "latent": ("latent attention", model.latent is not None),
        "predictions": ("layers that predict further tokens", model.predictions > 0),
    }
    lacks = [name for part, (name, has) in parts.items() if has and part not in trained]
    if lacks:
        yield Loss(f"model {model.name}, which has {' and '.join(lacks)}")


def shard_copies(problem: Problem, strategy: Strategy) -> set[int]:
    """Return how many copies a stage's shards have: of dense weights, of experts."""
    experts = problem.model.experts is not None
    return {*strategy.shard_copies(problem.training.shard_group, experts=experts)}


def group_losses(job: Job, *, copied: bool) -> Iterator[Loss]:
    """Yield a loss if files do not ask for the copies that shards have.

    Parameters
    ----------
    copied
        Whether they can: of all shards of a stage equally many.
    """
    for stage in job.stages:
        copies = shard_copies(job.problem, stage.strategy)
        if len(copies) > 1 or not (copied or copies == {1}):
            alike = "all shards have equally many copies, those of experts too"
            yield group_loss(job.problem, alike if copied else _NO_COPIES)
            return


def group_loss(problem: Problem, why: str = _NO_COPIES) -> Loss:
    """Return the loss of the copies that shards have."""
    return Loss(
        f"training.shard_group {problem.training.shard_group}: {why}",
        instead="shards over all of them, which need less memory and more network",
    )


def offload_losses(
    clusters: Collection[Cluster], why: str | None = ON_DEVICES
) -> Iterator[Loss]:
    """Yield a loss if clusters offload the optimizer and a runtime cannot.

    Parameters
    ----------
    clusters
        Those that stages are on.
    why
        Why the runtime cannot; None: it can, on all stages or on none.
    """
    names = [each.name for each in clusters if each.offload == "optimizer"]
    if not names or (why is None and len(names) == len(clusters)):
        return
    yield Loss(
        f"offload: optimizer of {listed(names)}: "
        f"{why or 'it offloads all stages or none'}",
        instead="optimizer states on the devices, which need more memory",
    )


def cut_losses(limits: Limits | str | None) -> Iterator[Loss]:
    """Yield the loss of chunks that differ if a runtime has none."""
    if not isinstance(limits, str | None) and not limits.cuts:
        yield Loss(
            "chunks that differ (cuts): its stages have one chunk, or chunks that are "
            "all alike; plan again without pin.cuts and pin.layout"
        )


def warm_up_losses(job: Job) -> Iterator[Loss]:
    """Yield warm-ups that are not those of 1F1B, where a runtime has no others."""
    if not job.warms_up_as_1f1b:
        planned = listed(stage.warmup for stage in job.stages)
        yield Loss(
            f"schedule {job.plan.schedule} with warm-ups {planned}: 1F1B "
            f"warms up with {listed(job.warmups_of_1f1b)}",
            instead="1F1B",
        )


def layer_losses(job: Job) -> Iterator[Loss]:
    """Yield the losses of a runtime whose stages hold whole, equal layers."""
    if job.problem.model.is_decoder_only and job.layers is None:
        counts = job.whole_layers
        yield Loss(
            "stages that begin or end inside a layer: stages hold whole layers",
            instead=None
            if counts is None
            else f"layers per stage {listed(counts)}, each cut one with its attention",
        )
    yield from unit_losses(job)


def unit_losses(job: Job) -> Iterator[Loss]:
    """Yield a loss if units of one stage have strategies of their own."""
    if job.plan.per_unit:
        yield Loss(
            "a strategy for each layer: all layers of a stage have the same",
            instead="each stage's most frequent strategy",
        )


def degree_losses(job: Job, name: str, what: str) -> Iterator[Loss]:
    """Yield a loss if stages differ in a degree that a runtime has once.

    Parameters
    ----------
    what
        What the degree counts, each of which is a pipeline in the runtime.
    """
    degrees = tuple(getattr(stage.strategy, name) for stage in job.stages)
    if len(set(degrees)) > 1:
        yield Loss(
            f"{name} {listed(degrees)} by stage: {what} is a whole pipeline, so all "
            f"stages have the same {name}"
        )


def heads_divide(strategy: Strategy, problem: Problem) -> bool:
    """Whether every rank of a stage has equally many key and value heads of its own.

    hetopt's plans may copy a head to several ranks if tp exceeds the number of heads.
    """
    return problem.model.kv_heads % strategy.tp == 0


def head_losses(job: Job, degrees: Iterable[int]) -> Iterator[Loss]:
    """Yield tensor-parallel degrees that leave ranks without heads of their own.

    Parameters
    ----------
    degrees
        The tp of the stages as they are launched.
    """
    heads = job.problem.model.kv_heads
    for tp in sorted({tp for tp in degrees if heads % tp}):
        yield Loss(
            f"tp {tp} with {heads} key and value heads: "
            "every rank has heads of its own (to plan so, pin tp)"
        )


def boundary_losses(
    job: Job, layout: Callable[[Strategy], object], sender: str
) -> Iterator[Loss]:
    """Yield boundaries that are not p2p in the plan, for a runtime that only sends p2p.

    Parameters
    ----------
    layout
        How a boundary tensor is laid out on a stage's devices. If it is the same on
        both sides, the devices send p2p under every way of resharding.
    sender
        Who sends what to whom.
    """
    for number, (before, after) in enumerate(pairwise(job.stages)):
        same = layout(before.strategy) == layout(after.strategy)
        if not same and before.resharding not in (None, "p2p"):
            yield Loss(
                f"resharding by {before.resharding} behind stage {number}: every "
                f"{sender} (to plan so, pin resharding: p2p)",
                instead="p2p there",
            )


def overlap_loss(overlap: float, why: str) -> Loss:
    """Return the loss of all-to-alls that a runtime does not hide."""
    return Loss(
        f"moe.overlap {overlap:g}: {why}",
        instead="all-to-alls that nothing hides, which take longer",
    )


def dropless_losses(moe: Dispatch) -> Iterator[Loss]:
    """Yield the losses of a runtime that drops no token and hides no all-to-all."""
    if moe.capacity is not None:
        yield Loss(
            f"moe.capacity {moe.capacity:g}: it drops no token",
            instead="no capacity, which takes more memory where loads are uneven",
        )
    yield from exchange_losses(moe)


def exchange_losses(moe: Dispatch) -> Iterator[Loss]:
    """Yield the losses of a runtime that sends all copies and hides no all-to-all."""
    if moe.node_dedup:
        yield Loss(
            "moe.node_dedup: a token is sent once to each of its experts",
            instead="an all-to-all of all copies, which takes longer",
        )
    elif moe.sent_by != "alltoall":
        yield Loss(
            f"moe.dispatcher {moe.sent_by}: it sends tokens by all-to-alls",
            instead="all-to-alls, which take longer",
        )
    if moe.overlaps:
        yield overlap_loss(moe.overlap, "it waits for all-to-alls")
