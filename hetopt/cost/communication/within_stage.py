"""Exposed communication of one micro-batch inside a stage.

Tensor parallelism with sequence parallelism gathers and scatters around attention
and around the MLP: per layer two all-gathers and two reduce-scatters forward, and
the same backward. None of it is hidden. Backward gathers the input once more, for
the weight's gradient, while the input's gradient is computed.
Attention to a context does the same with its own tokens, and gathers and scatters the
context once; a piece that merges tokens does so too.

Context parallelism sends keys and values around a ring: forward once, backward twice
the bytes (their gradients are sent too). A ring is hidden behind all steps of the
attention core but the first; the time beyond these is exposed.

ZeRO-3 gathers a unit's weights before its forward and its backward pass. ZeRO-2 and
ZeRO-3 keep gradients sharded while they accumulate (that is the memory they save), so
every micro-batch reduce-scatters them. Frameworks overlap both with computation. With
``training.software`` a unit's collectives run beside its computation if the stack's do
(``ShardTimes.sharding_beside``). Without it the hidden share is fitted to published
iterations of llm-foundry, and comes with the times of operators
(``ShardTimes.sharding``): about half on A100, almost nothing on H100. With other
sources' times none of it is hidden.

Tokens of routed experts are dispatched and combined by two all-to-alls over ``ep`` per
pass; ranks that split an expert's matrices (``etp``) gather the received tokens before
the expert, and scatter the sums after it. Only the share ``training.moe.overlap`` of it
is hidden, behind the computation of another micro-batch, if that takes as long.

Other hidden communication has a cost: computation is slowed by ``OVERLAP_COST`` of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.communication.collectives import (
    all_gather_s,
    all_reduce_s,
    all_to_all_s,
    gather_held_s,
    group_link,
    scatter_held_s,
)
from hetopt.cost.held_alike import held_alike
from hetopt.cost.memory import parameter_bytes
from hetopt.cost.pieces.kinds import pieces_of
from hetopt.cost.shapes import Floats, Ints, Shape, element_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetopt.cost.held_alike import HeldAlike
    from hetopt.cost.pieces.dispatched import Dispatched
    from hetopt.cost.pieces.piece import Piece
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.training import Training

#: Share of hidden communication's time by which computation is slowed: processors are
#: busy moving data inside a node (calculon's ``processor_usage``, A100 and H100).
OVERLAP_COST = 0.15

#: All-reduces of one fp32 number per token in the vocabulary-parallel loss.
_LOSS_REDUCTIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCommunication:
    """Seconds per row that a unit of one kind adds; (R,).

    Attributes
    ----------
    forward_s, backward_s
        Collectives of tensor parallelism, which are not hidden.
    dispatch_s
        Collectives of routed experts, in each pass; see ``exposed_dispatch_s``.
    ring_s, ring_backward_s
        Context-parallel ring, hidden behind the attention core.
    gather_s
        Gather of weights before each pass under ZeRO-3.
    scatter_s
        Scatter of gradients in every micro-batch under ZeRO-2 and -3.
    """

    forward_s: Floats
    backward_s: Floats
    dispatch_s: Floats
    ring_s: Floats
    ring_backward_s: Floats
    gather_s: Floats
    scatter_s: Floats


def stage_communication(
    model: Model,
    training: Training,
    cluster: Cluster,
    kind: str,
    shape: Shape,
    replicas: Ints,
    per_node: Ints,
) -> StageCommunication:
    """Return the communication of one unit and micro-batch.

    Parameters
    ----------
    replicas
        dp * cp, per row.
    per_node
        Devices that the stage has in each of its nodes, per row.
    """
    e = element_bytes(training.precision)
    one = np.ones_like(shape.tp)
    nothing = np.zeros(len(shape.tp))
    pieces = pieces_of(model, training, kind)
    forward = backward = nothing
    for (tokens, width), (count, repeated) in _collectives(pieces).items():
        size = shape.all_tokens(tokens) * width * e
        one_s = all_gather_s(cluster, shape.tp, one, per_node, size)
        forward = forward + count * one_s
        # Without sequence parallelism an all-reduce costs a gather and a scatter, and
        # backward has no split input to gather again.
        again = repeated if shape.sequence_parallel else 0
        backward = backward + (count * one_s + OVERLAP_COST * again * one_s)
    dispatch = ring = ring_backward = nothing
    for piece in pieces:
        rows = piece.loss_rows(shape)
        if rows is not None:
            forward = forward + _LOSS_REDUCTIONS * all_reduce_s(
                cluster, shape.tp, one, per_node, rows * 4
            )
        dispatched = piece.dispatched(shape, e)
        if dispatched is not None:
            # Dispatch and combination.
            dispatch = dispatch + 2 * _dispatch_s(cluster, shape, dispatched, per_node)
        passed_on = piece.ring_bytes(shape, e)
        if passed_on is not None:
            bandwidth, latency = group_link(cluster, shape.cp, shape.tp, per_node)
            steps, step_s = shape.cp - 1, passed_on / bandwidth
            ring = steps * (step_s + latency)
            ring_backward = steps * (2 * step_s + latency)
    gather, scatter = _sharded_s(
        training, cluster, held_alike(model, training, kind, shape, replicas), per_node
    )
    return StageCommunication(
        forward_s=forward,
        backward_s=backward,
        dispatch_s=dispatch,
        ring_s=ring,
        ring_backward_s=ring_backward,
        gather_s=gather,
        scatter_s=scatter,
    )


def _sharded_s(
    training: Training, cluster: Cluster, parts: Iterable[HeldAlike], per_node: Ints
) -> tuple[Floats, Floats]:
    """Return the seconds of a unit's ZeRO-3 gather and of its ZeRO-2 scatter; (R,)."""
    size = parameter_bytes(training)
    gather = scatter = np.zeros(len(per_node))
    for part in parts:
        if training.zero >= 3:
            gather = gather + gather_held_s(cluster, part, per_node, size.weight)
        if training.zero >= 2:
            scatter = scatter + scatter_held_s(cluster, part, per_node, size.gradient)
    return gather, scatter


def _dispatch_s(
    cluster: Cluster, shape: Shape, dispatched: Dispatched, per_node: Ints
) -> Floats:
    """Return the time of an all-to-all over ``ep`` and an all-gather over ``etp``.

    Combination has a reduce-scatter and an all-to-all, which cost the same.
    """
    ep, etp = shape.ep, shape.etp
    one = np.ones_like(etp)
    total_bytes = etp * dispatched.total_bytes
    shared_s = all_gather_s(cluster, etp, one, per_node, total_bytes)
    return all_to_all_s(cluster, ep, etp, per_node, dispatched) + shared_s


def _collectives(
    pieces: tuple[Piece, ...],
) -> dict[tuple[int, int], tuple[int, int]]:
    """Return (times, repeated) of exchanges by tensor: (tokens per sequence, width)."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for piece in pieces:
        for exchange in piece.exchanges:
            tensor = exchange.tokens, exchange.width
            times, repeated = found.get(tensor, (0, 0))
            found[tensor] = times + exchange.times, repeated + exchange.repeated
    return found


def overlapped_s(computation_s: Floats, communication_s: Floats) -> Floats:
    """Return the time of both run concurrently; it increases with either."""
    longer = np.maximum(computation_s, communication_s)
    return longer + OVERLAP_COST * np.minimum(computation_s, communication_s)


def exposed_ring_s(ring_s: Floats, core_s: Floats, cp: Ints) -> Floats:
    """Return the time that a ring adds to the attention steps that it overlaps with."""
    steps_s = core_s * (cp - 1) / cp
    return overlapped_s(steps_s, ring_s) - steps_s


def exposed_dispatch_s(
    dispatch_s: Floats, computation_s: Floats, share: Floats
) -> Floats:
    """Return the time that dispatch and combination add to a unit's pass; (R,).

    ``share`` of them overlaps with another micro-batch's pass through the same unit,
    which is assumed to compute as long as this one: no more than that is hidden.
    """
    shared_s = share * dispatch_s
    beside_s = overlapped_s(computation_s, shared_s) - computation_s
    return dispatch_s - shared_s + beside_s
