"""Layouts and boundary times by micro-batch count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, combinations, pairwise, product
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.boundaries.resharding import Side, boundary, tied_exchange_s
from hetopt.cost.memory import parameter_bytes
from hetopt.cost.ranges import nanoseconds
from hetopt.cost.shapes import element_bytes
from hetopt.cost.table.cluster import ClusterTable
from hetopt.cost.table.slice import Layout, TableSlice
from hetopt.cost.units import tables
from hetopt.schedule.shares import SharedLinks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.cost.boundaries.resharding import Boundary
    from hetopt.cost.shapes import Floats, Ints
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import Resharding

    #: A layout's dp and shards.
    _Key = tuple[int, int]


def table_slices(
    problem: Problem,
    tables: Mapping[int, Sequence[ClusterTable]],
    cut_classes: tuple[str, ...],
    permitted: tuple[Resharding, ...],
) -> list[TableSlice]:
    """Add layouts and boundaries to the clusters' coefficients.

    Boundary costs are computed for all micro-batch counts in one array.

    Parameters
    ----------
    tables
        Coefficients of every cluster, by micro-batch count.
    """
    clusters = problem.clusters
    keys = {
        q: [sorted({(s.dp, s.cp * s.tp) for s in table.strategies}) for table in own]
        for q, own in tables.items()
    }
    known = [
        sorted({key for own in keys.values() for key in own[j]})
        for j in range(len(clusters))
    ]
    drafts = [
        _Draft.of(keys[q], known, len(cut_classes), tied=problem.model.shares_table)
        for q in keys
    ]
    totals = [
        np.array([boundary_bytes(problem, q, cut) for q in tables])
        for cut in cut_classes
    ]
    for i, j in product(range(len(clusters)), repeat=2):
        if not known[i] or not known[j]:
            continue
        sender = _side(clusters[i], known[i], axis=0)
        receiver = _side(clusters[j], known[j], axis=1)
        found = [
            boundary(sender, receiver, problem.links, total[:, None, None], permitted)
            for total in totals
        ]
        tied = None
        if problem.model.shares_table:
            tied = tied_exchange_s(sender, receiver, problem.links, tied_bytes(problem))
        for number, draft in enumerate(drafts):
            for cut, (total, each) in enumerate(zip(totals, found, strict=True)):
                if total[number]:
                    draft.put(cut, i, j, each, number)
            if draft.tied is not None and tied is not None:
                draft.put_tied(i, j, tied)
    largest = np.max(totals, axis=0)
    return [
        draft.finished(q, own, _shared(problem, float(largest[number])))
        for number, (draft, (q, own)) in enumerate(
            zip(drafts, tables.items(), strict=True)
        )
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """Boundaries of one micro-batch count in seconds; (X, A, A), ``tied`` (A, A).

    Attributes
    ----------
    keys
        Layouts of each cluster.
    spans
        Their indices in the arrays.
    known
        Their indices among the layouts of all micro-batch counts.
    """

    keys: Sequence[Sequence[_Key]]
    spans: Sequence[slice]
    known: Sequence[Ints]
    transfer: Floats
    occupancy: Floats
    resharding: Ints
    tied: Floats | None

    @classmethod
    def of(
        cls,
        keys: Sequence[Sequence[_Key]],
        known: Sequence[Sequence[_Key]],
        cuts: int,
        *,
        tied: bool,
    ) -> _Draft:
        """Return a draft in which all boundaries take 0 seconds."""
        starts = list(accumulate(map(len, keys), initial=0))
        shape = (cuts, starts[-1], starts[-1])
        return cls(
            keys=keys,
            spans=[slice(*pair) for pair in pairwise(starts)],
            known=[
                np.array([every.index(key) for key in own], dtype=np.int64)
                for own, every in zip(keys, known, strict=True)
            ],
            transfer=np.zeros(shape),
            occupancy=np.zeros(shape),
            resharding=np.zeros(shape, dtype=np.int64),
            tied=np.zeros(shape[1:]) if tied else None,
        )

    def put(self, cut: int, i: int, j: int, found: Boundary, number: int) -> None:
        """Set boundaries from cluster i to j, at index ``number`` of ``found``."""
        target = (cut, self.spans[i], self.spans[j])
        source = (number, self.known[i][:, None], self.known[j])
        self.transfer[target] = found.transfer_s[source]
        self.occupancy[target] = found.occupancy_s[source]
        self.resharding[target] = found.strategy[source]

    def put_tied(self, i: int, j: int, seconds: Floats) -> None:
        """Set the exchange of a tied table's gradients between clusters i and j."""
        assert self.tied is not None
        source = (self.known[i][:, None], self.known[j])
        self.tied[self.spans[i], self.spans[j]] = seconds[source]

    def finished(
        self,
        microbatches: int,
        tables: Sequence[ClusterTable],
        shared: SharedLinks | None,
    ) -> TableSlice:
        """Return the slice, with times in whole nanoseconds."""
        transfer_ns = np.where(
            self.transfer > 0, np.maximum(nanoseconds(self.transfer), 1), 0
        )
        occupancy_ns = np.maximum(nanoseconds(self.occupancy), 1)
        return TableSlice(
            microbatches=microbatches,
            clusters=tuple(map(_numbered, tables, self.keys, self.spans)),
            layouts=tuple(
                Layout(cluster=j, dp=dp, shards=shards)
                for j, own in enumerate(self.keys)
                for dp, shards in own
            ),
            transfer_ns=transfer_ns,
            occupancy_ns=np.minimum(occupancy_ns, transfer_ns),
            resharding=self.resharding,
            tied_ns=None if self.tied is None else nanoseconds(self.tied),
            shared=shared,
        )


def _shared(problem: Problem, total_bytes: float) -> SharedLinks | None:
    """Return how long the largest boundary tensor occupies uplinks and links.

    Boundaries that share may be of different cut classes; the largest is assumed.
    """
    clusters = problem.clusters
    uplinks = [cluster.uplink_bytes_per_s or np.inf for cluster in clusters]
    capacity = np.full((len(clusters), len(clusters)), np.inf)
    for i, j in combinations(range(len(clusters)), 2):
        link = problem.links.between(clusters[i].name, clusters[j].name)
        if link is not None:
            capacity[i, j] = capacity[j, i] = link.capacity_bytes_per_s or np.inf
    if np.isinf(uplinks).all() and np.isinf(capacity).all():
        return None
    return SharedLinks(
        uplink_ns=nanoseconds(total_bytes / np.array(uplinks)),
        link_ns=nanoseconds(total_bytes / capacity),
    )


def _numbered(table: ClusterTable, keys: Sequence[_Key], span: slice) -> ClusterTable:
    """Return a cluster's coefficients with the layouts' numbers."""
    number = {key: place + span.start for place, key in enumerate(keys)}
    layout = [number[s.dp, s.cp * s.tp] for s in table.strategies]
    return replace(table, layout=np.array(layout, dtype=np.int64))


def _side(cluster: Cluster, keys: Sequence[_Key], axis: int) -> Side:
    """Return layouts as one side of boundaries, along ``axis`` of the arrays."""
    dp, shards = np.array(keys, dtype=np.int64).T
    return Side(
        cluster=cluster,
        dp=np.expand_dims(dp, 1 - axis),
        shards=np.expand_dims(shards, 1 - axis),
    )


def boundary_bytes(
    problem: Problem, microbatches: int, cut: str, *, within: bool = False
) -> float:
    """Return the bytes of a micro-batch's tensors of a cut class, over all replicas.

    Parameters
    ----------
    within
        Whether the cut is inside a stage; otherwise its tensors go to the next stage.
    """
    training = problem.training
    tensors = problem.model.cut_tensors(cut, training.seq_len, within=within)
    elements = sum(tokens * width for tokens, width in tensors)
    sequences = training.global_batch // microbatches
    return float(sequences * elements * element_bytes(training.precision))


def tied_bytes(problem: Problem) -> float:
    """Return the bytes that each way of a tied table's gradient exchange carries.

    If the model has a third copy of the table, the ring of three moves more bytes than
    two copies; they are counted whichever stage has that copy.
    """
    model = problem.model
    gradient = parameter_bytes(problem.training).gradient
    copies = tables(model)
    return float(model.hidden * model.vocab * gradient) * (2 * (copies - 1) / copies)
