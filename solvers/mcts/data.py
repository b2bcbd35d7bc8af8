"""The costs of all q at once that tree search reads, as flat arrays.

Options, sums over units and pins are those of ``solvers.arrays``, concatenated over q:
the slice at one q is a range of options, and its boundary costs are a range of one long
array. Nothing is computed twice (HetAuto section 7.1, memoization). A cluster's options
are ordered by recomputation and, within a level, by the devices of a stage.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.formulations.chain import Chain
from hetopt.formulations.program import ProgramData
from hetopt.problem.training.choices import RECOMPUTE, recompute_level
from hetopt.solvers.arrays.costs import Option
from hetopt.solvers.arrays.options import ProgramOptions
from hetopt.solvers.arrays.pins import pinned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.pins import Pins

    Ints = NDArray[np.int64]


class SpaceFact(IntEnum):
    """Positions in ``Space.facts``."""

    P, L, TIED, GPIPE, INSIDE, ACROSS, LEADS, TRAILS, FILLED, FREE = range(10)


class Space(NamedTuple):
    """Arrays of whole numbers: O options, Q micro-batch counts, J clusters, L units.

    Attributes
    ----------
    option, sums, temporary
        As in ``arrays.costs.Costs``, over the options of all q; clusters are the
        table's.
    begins
        Options of cluster j at the i-th q with the r-th level of ``RECOMPUTE`` are
        begins[i, j, r] .. begins[i, j, r + 1], the largest stages first; shape
        (Q, J, 4).
    room
        Most stages of a cluster under any of its strategies; shape (Q, J).
    full
        Whether a number of stages fills a cluster under some strategy (``_filling``);
        shape (Q, J, 1 + most stages).
    counts
        The micro-batch counts q; length Q.
    edge
        kappa and omega by cut class and layouts: (2, X, A, A) of each q, concatenated.
    tied
        Time that tied embeddings add to g: (A, A) of each q, concatenated.
    layouts
        Of each q: A, where its part of ``edge`` begins, and that of ``tied``; (Q, 3).
    cut, host, before, stages_ok, units_ok
        As in ``arrays.costs.Costs``.
    required
        Whether a cluster has to host a stage; length J.
    given
        Body units of each stage from the first one, -1 if free; length p.
    thresholds
        As in ``ScheduleRule``: each may add one to delta.
    facts
        p, L, whether embeddings are tied and p > 1, whether gpipe, the least delta
        inside clusters and across, units at the front, units at the end, whether
        layers are filled in at the tree's leaves instead of decided in the tree,
        whether strategies are free: devices of a cluster that hosts stages may idle,
        and each cluster has its own recomputation.
    """

    option: Ints
    sums: Ints
    temporary: Ints
    begins: Ints
    room: Ints
    full: Ints
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
    thresholds: Ints
    facts: Ints


class SearchData:
    """The spaces of every p over some slices of the table.

    Parameters
    ----------
    parts
        Slices of the table, with the strategies to choose from.
    stages
        The p of interest.
    guided
        Whether the search is ``mcts-guided``: strategies are free, and layers are
        filled in (``mcts.fill``) unless they are pinned.

    Attributes
    ----------
    stages
        The p that devices and pins leave room for.
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
        guided: bool = False,
    ) -> None:
        self.parts = parts
        self._guided = guided
        self.chain = chain = Chain.of(table)
        data = [
            ProgramData.of(table, part, chain, pins, stages=max(stages), cutoff=0)
            for part in parts
        ]
        sliced = [ProgramOptions(own, ()) for own in data]
        levels = [_levels(options) for options in sliced]
        sorts = [
            _sort(options, own) for options, own in zip(sliced, levels, strict=True)
        ]
        self.options = [
            options.pairs[o]
            for options, order in zip(sliced, sorts, strict=True)
            for o in order
        ]
        self._data = data
        self._arrays = {}
        if sliced:
            self._arrays = _joined(sliced, levels, sorts, table.cluster_devices)
        self.stages = tuple(p for p in stages if sliced and self._is_able(p))

    @classmethod
    def of(cls, problem: Problem, table: CostTable) -> SearchData:
        """Return the spaces of a whole problem, with every strategy of the table."""
        permits = problem.rules.microbatches.permits
        parts = [part for part in table.slices if permits(part.microbatches)]
        return cls(table, parts, problem.rules, problem.stage_counts)

    def _is_able(self, stages: int) -> bool:
        """Whether devices and pins leave room for this number of stages."""
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
        return Space(
            **arrays,
            **pins,
            required=required,
            given=given,
            thresholds=np.array(data.rule.thresholds, dtype=np.int64),
            facts=np.array(
                [
                    stages,
                    data.chain.length,
                    data.part.tied_ns is not None and stages > 1,
                    data.rule.all_first,
                    data.rule.inside,
                    data.rule.across,
                    sum(data.chain.lead),
                    sum(data.chain.trail),
                    self._guided
                    and data.pins.units is None
                    and pins["units_ok"][:, 1:].all(),
                    self._guided,
                ],
                dtype=np.int64,
            ),
        )


def _levels(options: ProgramOptions) -> Ints:
    """Return each option's recomputation as a place in ``RECOMPUTE``."""
    clusters = options.data.part.clusters
    return np.array(
        [
            recompute_level(clusters[j].strategies[k].recompute)
            for j, k in options.pairs
        ],
        dtype=np.int64,
    )


def _sort(options: ProgramOptions, levels: Ints) -> Ints:
    """Return the options by cluster, level, and devices of a stage, most first."""
    option = options.costs.option
    return np.lexsort((-option[:, Option.DEVICES], levels, option[:, Option.CLUSTER]))


def _filling(
    options: ProgramOptions, order: Ints, hosts: Ints, devices: Ints
) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the most stages of each option, and whether they fill its cluster.

    They fill it if they take all devices. If the nodes of a cluster make some option
    leave a stage's devices idle, the most stages of any of its options fill it.

    Parameters
    ----------
    hosts, devices
        The cluster of each option, and its devices; (O,).
    """
    pairs = [options.pairs[o] for o in order]
    clusters = options.data.part.clusters
    sizes = np.array([clusters[j].devices[k] for j, k in pairs], dtype=np.int64)
    most = np.array([clusters[j].max_stages[k] for j, k in pairs], dtype=np.int64)
    wasteful = np.unique(hosts[most < devices // sizes])
    return most, (most * sizes == devices) | np.isin(hosts, wasteful)


def _joined(
    sliced: Sequence[ProgramOptions],
    levels: Sequence[Ints],
    sorts: Sequence[Ints],
    devices: Sequence[int],
) -> dict[str, Ints]:
    """Concatenate the slices' arrays, with each slice's options sorted."""
    clusters = len(devices)
    steps = np.arange(clusters)[:, None] * len(RECOMPUTE)
    steps = steps + np.arange(len(RECOMPUTE) + 1)
    begins = np.zeros((len(sliced), *steps.shape), dtype=np.int64)
    room = np.zeros((len(sliced), clusters), dtype=np.int64)
    full = np.zeros((*room.shape, 1 + sliced[0].data.stages), dtype=np.int64)
    layouts = np.zeros((len(sliced), 3), dtype=np.int64)
    rows, sums, temporary, edges, tied = [], [], [], [], []
    count = edge_at = tied_at = 0
    for i, (options, level, order) in enumerate(
        zip(sliced, levels, sorts, strict=True)
    ):
        costs = options.costs
        option = costs.option[order]
        hosts = np.array(options.guests, dtype=np.int64)[option[:, Option.CLUSTER]]
        option[:, Option.CLUSTER] = hosts
        keys = hosts * len(RECOMPUTE) + level[order]
        begins[i] = count + np.searchsorted(keys, steps)
        np.maximum.at(room[i], hosts, option[:, Option.MOST_STAGES])
        hosted, fills = _filling(options, order, hosts, np.array(devices)[hosts])
        fills &= hosted <= option[:, Option.MOST_STAGES]
        full[i, hosts[fills], hosted[fills]] = 1
        layouts[i] = len(costs.home), edge_at, tied_at
        count += len(option)
        edge_at += costs.edge.size
        tied_at += costs.tied.size
        rows.append(option)
        sums.append(costs.sums[:, order])
        temporary.append(costs.temporary[order])
        edges.append(costs.edge.ravel())
        tied.append(costs.tied.ravel())
    return {
        "option": np.concatenate(rows),
        "sums": np.ascontiguousarray(np.concatenate(sums, axis=1)),
        "temporary": np.concatenate(temporary),
        "begins": begins,
        "room": room,
        "full": full,
        "counts": np.array(
            [options.data.part.microbatches for options in sliced], dtype=np.int64
        ),
        "edge": np.concatenate(edges),
        "tied": np.concatenate(tied),
        "layouts": layouts,
        "cut": sliced[0].costs.cut,
    }
