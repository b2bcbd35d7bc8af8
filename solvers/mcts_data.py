"""What tree search reads: the costs of all q at once, as flat arrays.

Options, sums over units and pins are those of ``dp_data``, put one after the other:
the slice at one q is a range of options, and its boundary costs are a range of one
long array. Nothing is worked out twice (HetAuto section 6, memoization).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.formulations.chain import Chain
from hetopt.formulations.program import ProgramData
from hetopt.solvers.dp_data import CLUSTER, ROOM, Offer, pinned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table import CostTable, TableSlice
    from hetopt.problem.problem import Problem
    from hetopt.problem.training import Pins

    Ints = NDArray[np.int64]

#: Positions in ``Space.facts``.
P, L, TIED, GPIPE, ADAPTIVE, INSIDE, ACROSS, LEADS, TRAILS, FILLED = range(10)
#: delta of a boundary inside a cluster and across; h-1f1b's are at least these.
_DELTAS = {"eager-1f1b": (2, 2), "virtual-1f1b": (1, 2)}


class Space(NamedTuple):
    """Arrays of whole numbers: O options, Q micro-batch counts, J clusters, L units.

    Attributes
    ----------
    option, sums, temporary
        As in ``dp_data.Costs``, over the options of all q; clusters are the table's.
    begins
        Options of cluster j at the i-th q are begins[i, j] .. begins[i, j + 1];
        shape (Q, J + 1).
    room
        Most stages of a cluster under any of its strategies; shape (Q, J).
    counts
        The micro-batch counts q; length Q.
    edge
        kappa and omega by cut class and layouts, (2, X, A, A) of one q after another.
    tied
        What tied embeddings add to g, (A, A) of one q after another.
    layouts
        Of each q: A, where its part of ``edge`` begins, and that of ``tied``; (Q, 3).
    cut, host, before, stages_ok, units_ok
        As in ``dp_data.Costs``.
    required
        Whether a cluster has to host something; length J.
    given
        Body units of each stage from the first one, -1 where free; length p.
    facts
        p, L, whether embeddings are tied and p > 1, whether gpipe, whether h-1f1b,
        delta inside clusters, delta across, units at the front, units at the end,
        whether layers are no decision of the tree but filled in at its leaves.
    """

    option: Ints
    sums: Ints
    temporary: Ints
    begins: Ints
    room: Ints
    counts: Ints
    edge: Ints
    tied: Ints
    layouts: Ints
    cut: Ints
    host: Ints
    before: Ints
    stages_ok: Ints
    units_ok: Ints
    required: Ints
    given: Ints
    facts: Ints


class Ground:
    """The spaces of every p over some slices of the table.

    Parameters
    ----------
    parts
        Slices of the table, with the strategies to choose from.
    stages
        The p of interest.
    filled
        Whether layers are to be filled in (``mcts_fill``) where no pin is on them.

    Attributes
    ----------
    stages
        Those of them that have anything to choose.
    options
        (cluster, index of the strategy in its slice) of every option.
    """

    def __init__(
        self,
        table: CostTable,
        parts: Sequence[TableSlice],
        pins: Pins,
        stages: Sequence[int],
        *,
        filled: bool = False,
    ) -> None:
        self.parts = parts
        self._filled = filled
        self.chain = chain = Chain.of(table)
        data = [
            ProgramData(
                part=part,
                chain=chain,
                schedule=table.schedule,
                pins=pins,
                names=table.cluster_names,
                devices=table.cluster_devices,
                usable_bytes=table.usable_bytes,
                stages=max(stages),
                cutoff=0,
            )
            for part in parts
        ]
        offers = [Offer(own, ()) for own in data]
        self.options = [option for offer in offers for option in offer.options]
        self._data = data
        self._arrays = _joined(offers, len(table.cluster_names)) if offers else {}
        self.stages = tuple(p for p in stages if offers and self._is_able(p))

    @classmethod
    def of(cls, problem: Problem, table: CostTable) -> Ground:
        """Return the spaces of a whole problem, with every strategy of the table."""
        permits = problem.pins.microbatches.permits
        parts = [part for part in table.slices if permits(part.microbatches)]
        return cls(table, parts, problem.pins, problem.stage_counts)

    def _is_able(self, stages: int) -> bool:
        """Whether there is room for so many stages, by the pins as well."""
        given = self._data[0].pins.units
        room = self._arrays["room"].sum(axis=1)
        return (
            stages <= self.chain.length
            and bool((room >= stages).any())
            and (given is None or len(given) == stages)
        )

    def at(self, stages: int) -> Space:
        """Return the space of one p of ``stages``."""
        arrays, data = self._arrays, self._data[0]
        pins = pinned(replace(data, stages=stages), range(len(data.names)))
        given = pins.pop("given")[::-1].copy()
        required = 1 - np.minimum(pins["stages_ok"][:, 0], pins["units_ok"][:, 0])
        inside, across = _DELTAS.get(data.schedule, (1, 1))
        return Space(
            **arrays,
            **pins,
            required=required,
            given=given,
            facts=np.array(
                [
                    stages,
                    data.chain.length,
                    data.part.tied_ns is not None and stages > 1,
                    data.schedule == "gpipe",
                    data.schedule == "h-1f1b",
                    inside,
                    across,
                    sum(data.chain.lead),
                    sum(data.chain.trail),
                    self._filled
                    and data.pins.units is None
                    and pins["units_ok"][:, 1:].all(),
                ],
                dtype=np.int64,
            ),
        )


def _joined(offers: Sequence[Offer], clusters: int) -> dict[str, Ints]:
    """Put what the slices offer one after the other."""
    begins = np.zeros((len(offers), clusters + 1), dtype=np.int64)
    room = np.zeros((len(offers), clusters), dtype=np.int64)
    layouts = np.zeros((len(offers), 3), dtype=np.int64)
    options, edges, tied = [], [], []
    count = edge_at = tied_at = 0
    for i, offer in enumerate(offers):
        costs = offer.costs
        option = costs.option.copy()
        hosts = np.array(offer.guests, dtype=np.int64)[option[:, CLUSTER]]
        option[:, CLUSTER] = hosts
        begins[i] = count + np.searchsorted(hosts, np.arange(clusters + 1))
        np.maximum.at(room[i], hosts, option[:, ROOM])
        layouts[i] = len(costs.home), edge_at, tied_at
        count += len(option)
        edge_at += costs.edge.size
        tied_at += costs.tied.size
        options.append(option)
        edges.append(costs.edge.ravel())
        tied.append(costs.tied.ravel())
    return {
        "option": np.concatenate(options),
        "sums": np.concatenate([offer.costs.sums for offer in offers], axis=1),
        "temporary": np.concatenate([offer.costs.temporary for offer in offers]),
        "begins": begins,
        "room": room,
        "counts": np.array(
            [offer.data.part.microbatches for offer in offers], dtype=np.int64
        ),
        "edge": np.concatenate(edges),
        "tied": np.concatenate(tied),
        "layouts": layouts,
        "cut": offers[0].costs.cut,
    }
