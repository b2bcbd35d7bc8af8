"""Memory and parts of the times of stages, from their places in a latency table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.schedule.orders import FOLDED_CHUNKS
from hetopt.schedule.times import Chunks, Fold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.schedule.times import PipelineTimes


class Place(NamedTuple):
    """A stage's place in the table."""

    cluster: int
    table: ClusterTable
    strategy: int
    counts: NDArray[np.int64]


def stage_sync_ns(place: Place) -> int:
    """Return g of a stage, without tied embeddings."""
    own, units = place.table, place.table.sync_unit_ns[place.strategy]
    return int(own.sync_ns[place.strategy]) + int(place.counts @ units)


def stage_weight_ns(places: Sequence[Place]) -> tuple[int, ...] | None:
    """Return each stage's time for weights' gradients; None if none run apart."""
    found = [
        int(place.counts @ place.table.weight_ns[place.strategy])
        for place in places
        if place.table.weight_ns is not None
    ]
    return tuple(found) or None


def fold_of(part: TableSlice, places: Sequence[Place]) -> Fold | None:
    """Return the part of stages' times for their first chunks; None if not folded."""
    if part.pairs is None:
        return None
    first = [pair[0] for pair in part.pairs]
    pairs = len(first)

    def sums(name: str, *, of_pairs: bool = False) -> tuple[int, ...]:
        found = []
        for place in places:
            row = getattr(place.table, name)[place.strategy]
            times = row[-pairs:] if of_pairs else row[first]
            found.append(int(place.counts[-pairs:] @ times))
        return tuple(found)

    return Fold(
        forward_ns=sums("forward_ns"),
        backward_ns=sums("backward_ns"),
        weight_ns=sums("weight_ns"),
        handed_on_ns=sums("handed_on_ns", of_pairs=True),
        fill_ns=sums("fill_ns", of_pairs=True),
    )


def chunks_of(
    part: TableSlice,
    layouts: Sequence[int],
    places: Sequence[Place],
    body: NDArray[np.bool_],
) -> Chunks | None:
    """Return further times of stages with several chunks; None if they have one.

    Parameters
    ----------
    body
        Whether units of each kind are in every chunk; shape (N,).
    """
    if part.way_back is None:
        return None
    back = part.way_back, layouts[-1], layouts[0]

    def ends(place: Place) -> tuple[int, int]:
        ns = place.table.forward_ns, place.table.backward_ns
        own = place.counts * ~body
        forward, backward = (part.chunks * int(own @ t[place.strategy]) for t in ns)
        return forward, backward

    return Chunks(
        count=part.chunks,
        way_back_ns=int(part.transfer_ns[back]),
        way_back_occupancy_ns=int(part.occupancy_ns[back]),
        lead_ns=ends(places[0]),
        trail_ns=ends(places[-1]),
    )


def one_pass_bytes(
    times: PipelineTimes, table: CostTable, places: tuple[Place, ...]
) -> tuple[int, ...]:
    """Return the bytes of activations of one pass of each stage.

    The ends of the model are left out if only some passes run them.
    """
    chunks = table.chunks if times.fold is None else FOLDED_CHUNKS
    each = np.array(table.body) | (chunks == 1)
    found = (
        int(place.counts * each @ place.table.activation_bytes[place.strategy])
        for place in places
    )
    # A pair of units belongs to both chunks.
    return tuple(
        bytes_ // (1 if times.fold is None else FOLDED_CHUNKS) for bytes_ in found
    )


def held_bytes(place: Place, held: NDArray[np.int64]) -> int:
    """Return bytes of a stage's states and of ``held`` activations of each kind."""
    costs, strategy = place.table, place.strategy
    return int(
        place.counts @ costs.state_bytes[strategy]
        + place.counts * held @ costs.activation_bytes[strategy]
    )


def stage_memory_bytes(place: Place, held: NDArray[np.int64]) -> int:
    """Return the bytes that a device of the stage needs (MODEL.md section 5).

    Parameters
    ----------
    held
        Activations held of each kind; shape (N,).
    """
    costs, strategy, counts = place.table, place.strategy, place.counts
    return (
        int(costs.fixed_bytes[strategy])
        + held_bytes(place, held)
        + int(costs.temporary_bytes[strategy][counts > 0].max())
    )


def stage_recompute_ns(place: Place) -> int | None:
    """Return the time that recomputation adds to backward; None if it is unknown."""
    strategy = place.table.strategies[place.strategy]
    try:
        plain = place.table.row(replace(strategy, recompute="none"))
    except KeyError:
        return None
    backward = place.table.backward_ns
    more = int(place.counts @ (backward[place.strategy] - backward[plain]))
    # In a measured table, backward may take less time with recomputation.
    return more if more >= 0 else None
