"""What several launchers cannot do of a plan, said once."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hetopt.export.launcher import Loss
from hetopt.export.prose import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hetopt.export.job import Job
    from hetopt.plan import Strategy
    from hetopt.problem.model import Model
    from hetopt.problem.problem import Problem


def model_losses(model: Model) -> Iterator[Loss]:
    """Yield a loss if a model is anything but a decoder of tokens."""
    if not model.is_decoder_only:
        yield Loss(
            what=f"model {model.name}, which is no decoder-only model of tokens",
            instead=None,
        )


def layer_losses(job: Job) -> Iterator[Loss]:
    """Yield what a runtime with whole layers, alike within a stage, cannot do."""
    if job.problem.model.is_decoder_only and job.layers is None:
        counts = job.whole_layers
        yield Loss(
            what="stages that begin or end inside a layer: stages hold whole layers",
            instead=None
            if counts is None
            else f"layers per stage {listed(counts)}, each cut one with its attention",
        )
    if job.plan.per_unit:
        yield Loss(
            what="a strategy for each layer: all layers of a stage have the same",
            instead="each stage's most frequent strategy",
        )


def heads_divide(strategy: Strategy, problem: Problem) -> bool:
    """Whether every rank of a stage has key and value heads of its own, all as many.

    hetopt's plans may copy a head to several ranks where tp exceeds their number.
    """
    return problem.model.kv_heads % strategy.tp == 0


def head_losses(job: Job, strategies: Iterable[Strategy]) -> Iterator[Loss]:
    """Yield tensor-parallel degrees that leave ranks without heads of their own.

    Parameters
    ----------
    strategies
        As they are launched.
    """
    for tp in sorted({s.tp for s in strategies if not heads_divide(s, job.problem)}):
        yield Loss(
            what=f"tp {tp} with {job.problem.model.kv_heads} key and value heads: "
            "every rank has heads of its own (to plan so, pin tp)",
            instead=None,
        )


def boundary_losses(
    job: Job, layout: Callable[[Strategy], object], sender: str
) -> Iterator[Loss]:
    """Yield boundaries where a runtime that sends p2p would have to reshard otherwise.

    Parameters
    ----------
    layout
        How a boundary tensor lies on a stage's devices: where it is the same on both
        sides, resharding is p2p whatever it is called.
    sender
        Who sends what to whom.
    """
    for number, (before, after) in enumerate(pairwise(job.stages)):
        same = layout(before.strategy) == layout(after.strategy)
        if not same and before.resharding not in (None, "p2p"):
            yield Loss(
                what=f"resharding by {before.resharding} behind stage {number}: every "
                f"{sender} (to plan so, pin resharding: p2p)",
                instead="p2p there",
            )
