"""A pipeline as it is read back from a runtime's files, before it is a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hetopt.plans.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from fractions import Fraction

    from hetopt.problem.cluster.cluster import Offload
    from hetopt.problem.training.choices import Recompute, ScheduleName
    from hetopt.results.reported import Reported

#: Files with more stages than this are refused.
MOST_STAGES = 10_000

#: The name that the files give a stage's cluster or accelerator, None if they name
#: neither; and the hosts of its ranks in rank order, empty if they are not named.
StagePlace = tuple[str | None, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReadBack:
    """One pipeline stage as a runtime's files describe it.

    Attributes
    ----------
    cluster, hosts
        As in ``StagePlace``.
    layers
        Transformer layers; thirds of them, for attention and each matrix of the MLP,
        where stages begin inside layers.
    warmup
        Forward passes before the first backward pass; None if the schedule prescribes
        them.
    """

    cluster: str | None
    hosts: tuple[str, ...]
    layers: int | Fraction
    strategy: Strategy
    warmup: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReadBack:
    """A pipeline as a runtime's files describe it.

    Attributes
    ----------
    schedule
        The runtime's; a ``warmup`` of the stages replaces the counts it prescribes.
    says
        What the files say of model and training, by the field names of ``Model``,
        its ``Architecture`` and ``Training``: ``hidden``, ``heads``, ``kv_heads``,
        ``ffn``, ``vocab``, ``tied``, ``gated``, ``seq_len``, ``global_batch``,
        ``zero``, ``precision``, ``norm_eps`` and so on; a frozenset if several values
        are possible. If the problem has another value, the files are of another job.
    reported
        What the files say that hetopt does not know or cannot price.
    chunks
        Chunks of the model on every stage; ``layers`` of a stage are those of one, or
        of all of them if there is a ``layout`` or ``cuts``.
    layout
        What chunks hold, as Megatron-LM's layouts say it
        (``hetopt.problem.layout``), in the words of the files if they have
        one; None: chunks are alike, and hold a layer each.
    cuts
        In place of a layout, where chunks may end inside layers: the end of each in
        the model's units.
    offload
        The state that all stages keep in host memory; None if there is none.
    """

    microbatches: int
    schedule: ScheduleName
    stages: tuple[StageReadBack, ...]
    says: Mapping[str, Any] = field(default_factory=dict)
    reported: tuple[Reported, ...] = ()
    chunks: int = 1
    layout: str | None = None
    cuts: tuple[int, ...] | None = None
    offload: Offload | None = None


def stages_of(
    places: Iterable[StagePlace],
    layers: Iterable[int | Fraction],
    degrees: Iterable[tuple[int, int, int]],
    recompute: Iterable[Recompute],
    experts: tuple[int, int] = (1, 1),
) -> tuple[StageReadBack, ...]:
    """Return stages from what is known of each.

    Parameters
    ----------
    degrees
        (dp, cp, tp).
    experts
        (ep, etp) of all stages.
    """
    ep, etp = experts
    rows = zip(places, layers, degrees, recompute, strict=True)
    return tuple(
        StageReadBack(
            cluster=cluster,
            hosts=hosts,
            layers=count,
            strategy=Strategy(dp=dp, cp=cp, tp=tp, ep=ep, etp=etp, recompute=policy),
        )
        for (cluster, hosts), count, (dp, cp, tp), policy in rows
    )
