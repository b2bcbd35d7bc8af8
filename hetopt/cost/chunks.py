"""Tables of interleaved schedules: the whole model folded to one chunk of it.

With v chunks per stage, the body of the model consists of v equal parts, and the stages
divide every part in the same way. So a plan places the units of one part
(``one_chunk``): the units at the ends of the model, and a v-th of those between. Costs
of a unit are then per pass: one micro-batch on one chunk (``folded``). Every stage
holds the activations of (v - 1) p passes in addition to those of 1F1B's warm-up: with p
known, they are added to its state (``with_stages``), so that programs need no term for
them. Micro-batches with pending weight gradients (``hetopt.schedule.orders``) are
treated likewise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.words import counted
from hetopt.cost.folding import pair_name, pairs_of, with_both_chunks
from hetopt.cost.table.ticks import TOO_LONG_NS
from hetopt.errors import InputError
from hetopt.problem.model.kinds import END_KINDS
from hetopt.problem.training.choices import INTERLEAVED
from hetopt.schedule.schedules import rule_of
from hetopt.schedule.warmup import held_ahead, held_at_ends

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.schedule.times import PipelineTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Units of one of v equal parts, with those at both ends of the model.

    Attributes
    ----------
    units, cuts
        As those of ``Model``.
    way_back
        Cut from the last unit of a part to the first of the next; None if there is
        one part.
    """

    units: tuple[str, ...]
    cuts: tuple[str, ...]
    way_back: str | None = None


def one_chunk(model: Model, chunks: int) -> Chunk:
    """Divide the body of a model into equal parts.

    Raises
    ------
    InputError
        The body does not consist of ``chunks`` equal parts.
    """
    if chunks == 1:
        return Chunk(units=model.units, cuts=model.cuts)
    first, length = _body(model)
    if not divides(model, chunks):
        # There are at least two stages, and each has a unit of every chunk.
        able = [v for v in range(2, length // 2 + 1) if divides(model, v)]
        known = f"expected {' or '.join(map(str, able))}, or another schedule"
        msg = (
            f"is {chunks}, but the model's {counted(length, 'unit')} between embedding "
            f"and head cannot be divided into {counted(chunks, 'equal part')}: "
            f"{known if able else 'use a schedule with one chunk per stage'}"
        )
        raise InputError(msg, field="training.chunks")
    part, after = length // chunks, first + length
    return Chunk(
        units=(*model.units[: first + part], *model.units[after:]),
        cuts=(*model.cuts[: first + part - 1], *model.cuts[after - 1 :]),
        way_back=model.cuts[first + part - 1],
    )


def _body(model: Model) -> tuple[int, int]:
    """Return the first unit between the ends of a model, and how many there are."""
    inside = [u for u, kind in enumerate(model.units) if kind not in END_KINDS]
    return inside[0], len(inside)


def divides(model: Model, chunks: int) -> bool:
    """Whether the body of a model consists of ``chunks`` equal parts."""
    first, length = _body(model)
    part, rest = divmod(length, chunks)
    units, cuts = model.units[first:], model.cuts[first:]
    return not rest and all(
        units[u] == units[u % part] and (u + 1 == length or cuts[u] == cuts[u % part])
        for u in range(length)
    )


def placed_units(
    model: Model,
    schedule: ScheduleName,
    chunks: int,
    cuts: tuple[int, ...] | None = None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the kinds of the units that plans place, and the cuts between them.

    Parameters
    ----------
    cuts
        Ends of chunks that differ: they hold the units of the whole model.

    Raises
    ------
    InputError
        The model cannot be divided, or folded, as the schedule requires.
    """
    if rule_of(schedule).folded:
        units = tuple(pair_name(*pair) for pair in pairs_of(model.units, model.cuts))
        return units, model.cuts[: len(units) - 1]
    chunk = one_chunk(model, 1 if cuts is not None else chunks)
    return chunk.units, chunk.cuts


def folded(table: CostTable, model: Model, chunks: int) -> CostTable:
    """Return the table of one chunk, from that of the whole model.

    Times and activations of the body count one pass, states and gradients all chunks;
    the ends of the model add a v-th of their time to each pass.

    Raises
    ------
    InputError
        As ``one_chunk``.
    """
    if chunks == 1:
        return table
    chunk = one_chunk(model, chunks)
    assert chunk.way_back is not None
    way_back = table.cut_classes.index(chunk.way_back)
    body = np.array(table.body)

    def fold(own: ClusterTable) -> ClusterTable:
        all_chunks = np.where(body, chunks, 1)
        return replace(
            own,
            forward_ns=np.where(body, own.forward_ns, -(-own.forward_ns // chunks)),
            backward_ns=np.where(body, own.backward_ns, -(-own.backward_ns // chunks)),
            state_bytes=own.state_bytes * all_chunks,
            sync_unit_ns=np.minimum(own.sync_unit_ns * all_chunks, TOO_LONG_NS),
        )

    return replace(
        table,
        units=tuple(table.kinds.index(kind) for kind in chunk.units),
        cuts=tuple(table.cut_classes.index(cut) for cut in chunk.cuts),
        slices=tuple(
            replace(
                part,
                clusters=tuple(map(fold, part.clusters)),
                chunks=chunks,
                way_back=way_back,
            )
            for part in table.slices
        ),
        chunks=chunks,
        way_back=way_back,
    )


def with_one_beside(table: CostTable) -> CostTable:
    """Return the table for ``moe.overlap``, with one more micro-batch in memory.

    Stages that overlap one micro-batch's forward with another's backward pass run one
    forward pass more than the schedule's warm-up (Megatron-core,
    ``schedules.get_pp_rank_microbatches``), and so hold the activations of one more,
    unless they hold those of all micro-batches anyway.
    """
    if rule_of(table.schedule).all_first:
        return table

    def hold(own: ClusterTable) -> ClusterTable:
        spread = np.array([each.ep > 1 for each in own.strategies])
        more = np.where(spread[:, None], own.activation_bytes, 0)
        return replace(own, state_bytes=own.state_bytes + more)

    return replace(
        table,
        slices=tuple(
            replace(part, clusters=tuple(map(hold, part.clusters)))
            if part.microbatches > 1
            else part
            for part in table.slices
        ),
    )


def held_by_kind(
    times: PipelineTimes, body: NDArray[np.bool_]
) -> list[NDArray[np.int64]]:
    """Return how many activations of each kind every stage holds; p of shape (N,).

    With folded stages, without those that are counted as state.

    Parameters
    ----------
    body
        Whether units of each kind are in every chunk; shape (N,).
    """
    held = [np.full(len(body), inflight) for inflight in times.inflight]
    if times.fold is not None:
        held = [each - times.stages for each in held]
    if times.chunks is not None:
        p, q = times.stages, times.microbatches
        ends = held_at_ends(times.schedule, p, q, times.chunks.count)
        for stage, count in zip((0, p - 1), ends, strict=True):
            held[stage][~body] = count
    return held


def holds_ahead(part: TableSlice) -> bool:
    """Whether what stages hold depends on p, and not on their warm-up count alone."""
    return part.chunks > 1 or any(own.weight_bytes is not None for own in part.clusters)


def with_stages(
    part: TableSlice, lead: NDArray[np.bool_], trail: NDArray[np.bool_], stages: int
) -> TableSlice:
    """Return the slice for p stages, with passes beyond 1F1B's warm-up as state.

    Parameters
    ----------
    lead, trail
        Which kinds are before the body and after it; shape (N,). They hold activations
        of their own chunk only, whose number does not depend on the warm-up count.
    stages
        p, which divides q.
    """
    if part.chunks == 1:
        return with_waiting(part, lead | trail, stages)
    ahead = held_ahead(stages, part.chunks)
    first, last = held_at_ends(INTERLEAVED, stages, part.microbatches, part.chunks)
    held = np.where(lead, first, np.where(trail, last, ahead)).astype(np.int64)
    return replace(
        part,
        clusters=tuple(
            replace(
                own,
                state_bytes=own.state_bytes + held * own.activation_bytes,
                activation_bytes=np.where(lead | trail, 0, own.activation_bytes),
            )
            for own in part.clusters
        ),
        ahead=ahead,
    )


def with_waiting(part: TableSlice, ends: NDArray[np.bool_], stages: int) -> TableSlice:
    """Return the slice with the tensors of pending weight gradients as state.

    A stage holds the activations of min(W, q) micro-batches, and the tensors of pending
    weight gradients of min(p, q) - min(W, q) others. A backward pass turns the one into
    the other, so a micro-batch in flight counts with the larger of both: the state has
    the pending tensors of min(p, q) micro-batches, and ``activation_bytes`` becomes
    what activations take beyond them, for each of min(W, q).

    Folded stages hold more (``hetopt.cost.folding``).

    Parameters
    ----------
    ends
        Which kinds are at the ends of the model; shape (N,).
    stages
        p.
    """
    if part.pairs is not None:
        return with_both_chunks(part, ends, stages)
    count = min(stages, part.microbatches)

    def waiting(own: ClusterTable) -> ClusterTable:
        if own.weight_bytes is None:
            return own
        return replace(
            own,
            state_bytes=own.state_bytes + count * own.weight_bytes,
            activation_bytes=np.maximum(own.activation_bytes - own.weight_bytes, 0),
            weight_bytes=np.zeros_like(own.weight_bytes),
        )

    return replace(part, clusters=tuple(map(waiting, part.clusters)))
