"""The builder of the arrays that compiled searches of one (p, q) read."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.table.ticks import LONGEST_NS
from hetopt.schedule.paths import PathForm
from hetopt.solvers.arrays.costs import (
    SHARING,
    Costs,
    Fact,
    Option,
    Stock,
    Sum,
    Weight,
)
from hetopt.solvers.arrays.pins import pinned
from hetopt.solvers.decisions.copies import last_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData
    from hetopt.solvers.arrays.costs import Ints

#: Fields of a cluster's table that stages add up over units, in the order of ``Sum``.
_SUMMED = (
    "round_trip_ns",
    "forward_ns",
    "end_unit_ns",
    "state_bytes",
    "activation_bytes",
    "fill_ns",
    "handed_on_ns",
)
#: A table over subsets of clusters is too slow if it takes more steps than this.
_MOST_STEPS = 500_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayBuilder:
    """Builds ``Costs``; see ``ProgramOptions`` for the fields."""

    data: ProgramData
    rows: Sequence[Ints]
    pairs: list[tuple[int, int]]
    guests: list[int]
    leaders: tuple[int, ...]

    def _gather(self, name: str) -> Ints:
        return self._of_pairs(
            [getattr(cluster, name) for cluster in self.data.part.clusters]
        )

    def _of_pairs(self, columns: Sequence[Ints]) -> Ints:
        """Return what options have of columns by cluster and strategy."""
        both = zip(columns, self.rows, strict=True)
        return np.concatenate([column[rows] for column, rows in both], dtype=np.int64)

    def costs(self, excluded: Sequence[Decision]) -> Costs:
        """Return all costs; plans with the shape of an excluded one are ruled out."""
        data, chain = self.data, self.data.chain
        summed = list(map(self._gather, _SUMMED))
        temporary = self._gather("temporary_bytes")
        prefix = chain.prefix.T
        kept, layouts = self._layouts()
        grid = np.ix_(range(len(data.part.transfer_ns)), kept, kept)
        option = self._option_rows(layouts, summed, temporary)
        tied = data.part.tied_ns
        priced = bool(data.principles.relaxed) or self._steps(option) > _MOST_STEPS
        whole = np.ascontiguousarray
        pins = pinned(data, self.guests)
        pins["host"] = whole(np.hstack([pins["host"], self._turns()]))
        return Costs(
            option=option,
            sums=np.stack([cost @ prefix for cost in summed]),
            temporary=whole(temporary[:, list(chain.body)]),
            edge=np.stack([data.part.transfer_ns[grid], data.part.occupancy_ns[grid]]),
            cut=np.array([0, *chain.cuts, 0], dtype=np.int64),
            home=np.array(
                [self.guests.index(data.part.layouts[a].cluster) for a in kept],
                dtype=np.int64,
            ),
            tied=(
                np.zeros((len(kept), len(kept)), dtype=np.int64)
                if tied is None
                else whole(tied[np.ix_(kept, kept)])
            ),
            weights=np.zeros((0, len(Weight)), dtype=np.int64),
            stock=self._stock(),
            **pins,
            row=np.zeros(1, dtype=np.int64) if priced else self._rows(),
            shapes=self._shapes(excluded),
            facts=self._facts(kept, priced=priced),
        )

    def _option_rows(
        self, layouts: Ints, costs: Sequence[Ints], temporary: Ints
    ) -> Ints:
        """Return ``Costs.option``.

        Parameters
        ----------
        layouts
            Layout of each option.
        costs, temporary
            Costs of a unit of each kind, in the order of ``Sum``; shape (O, kinds).
        """
        data, chain = self.data, self.data.chain
        option = np.zeros(
            (len(self.pairs), Option.TRAIL + Sum.PEAK + 1), dtype=np.int64
        )
        hosts = [j for j, _ in self.pairs]
        option[:, Option.CLUSTER] = [self.guests.index(j) for j in hosts]
        option[:, Option.RANK] = [k for _, k in self.pairs]
        option[:, Option.LAYOUT] = layouts
        option[:, Option.DEVICES] = self._gather("devices")
        option[:, Option.TENSOR] = [
            data.part.clusters[j].strategies[k].tp for j, k in self.pairs
        ]
        option[:, Option.MOST_STAGES] = self._of_pairs(
            [most_stages(data, j) for j in range(len(self.rows))]
        )
        option[:, Option.SYNC_FIXED] = self._gather("sync_ns")
        usable = np.array(data.usable_bytes, dtype=np.int64)
        option[:, Option.FREE_BYTES] = usable[hosts] - self._gather("fixed_bytes")
        for end, counts in ((Option.LEAD, chain.lead), (Option.TRAIL, chain.trail)):
            for column, cost in enumerate(costs):
                option[:, end + column] = cost @ np.array(counts)
            present = np.array(counts) > 0
            option[:, end + Sum.PEAK] = temporary[:, present].max(axis=1, initial=0)
        return option

    def _stock(self) -> Ints:
        """Return ``Costs.stock``."""
        data = self.data
        rows = [
            (i, *limit)
            for i, j in enumerate(self.guests)
            if data.principles.sharing != "one"
            for limit in data.stock(j)[1:]
        ]
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(Stock))

    def _facts(self, kept: list[int], *, priced: bool) -> Ints:
        """Return ``Costs.facts``."""
        data, chain = self.data, self.data.chain
        tied = data.part.tied_ns is not None and data.stages > 1
        path, back, grid = PathForm(data.rule), data.part.way_back, np.ix_(kept, kept)
        kappas = data.part.transfer_ns[back or 0][grid]
        facts = {
            Fact.P: data.stages,
            Fact.Q: data.part.most_held,
            Fact.L: chain.length,
            Fact.TIED: tied,
            Fact.GPIPE: data.rule.all_first,
            # A pinned order names every cluster once.
            Fact.CONSECUTIVE: data.principles.consecutive
            or data.pins.order is not None,
            Fact.SHARED: SHARING[data.principles.sharing],
            Fact.LEADS: sum(chain.lead),
            Fact.TRAILS: sum(chain.trail),
            Fact.PRICED: priced,
            Fact.FREE: data.rule.free,
            Fact.BLOCKING: data.rule.blocking,
            Fact.CHUNKS: data.part.chunks,
            Fact.WAY_BACK: 0 if back is None else kappas.min(initial=LONGEST_NS),
            Fact.HOPS: 2 * data.part.chunks,
            Fact.WINDOWS: path.windows,
            Fact.ENDS: not (data.rule.interleaved or data.rule.folded),
        }
        return np.array([facts[fact] for fact in Fact], dtype=np.int64)

    def _steps(self, option: Ints) -> int:
        """Return about how many steps a table over subsets of clusters takes."""
        stages, length = self.data.stages, self.data.chain.length
        most = np.bincount(
            option[:, Option.CLUSTER], np.minimum(option[:, Option.MOST_STAGES], stages)
        )
        groups = self._groups()
        # In a subset one cluster per group may be next, none if the group is used up.
        rows = sum(most[members].sum() / (len(members) + 1) for members in groups)
        subsets = prod(len(members) + 1 for members in groups)
        return int(rows * subsets) * stages * length

    def _groups(self) -> list[list[int]]:
        """Return the groups of identical guests, numbered as in ``costs``."""
        groups: dict[int, list[int]] = {}
        for i, j in enumerate(self.guests):
            groups.setdefault(self.leaders[j], []).append(i)
        return list(groups.values())

    def _turns(self) -> Ints:
        """Return LEADER and AHEAD of every guest; shape (J, 2)."""
        turns = np.zeros((len(self.guests), 2), dtype=np.int64)
        for members in self._groups():
            for place, i in enumerate(members):
                turns[i] = members[0], sum(1 << j for j in members[place + 1 :])
        return turns

    def _rows(self) -> Ints:
        """Return ``Costs.row``."""
        count = len(self.guests)
        subset = np.arange(1 << count)
        can_be = np.ones(len(subset), dtype=bool)
        for members in self._groups():
            for i, j in pairwise(members):
                can_be &= (subset >> i & 1) >= (subset >> j & 1)
        return np.where(can_be, np.cumsum(can_be) - 1, -1)

    def _layouts(self) -> tuple[list[int], Ints]:
        """Return the layouts that occur, and each option's as an index into them."""
        own = [int(self.data.part.clusters[j].layout[k]) for j, k in self.pairs]
        kept = sorted(set(own))
        return kept, np.array([kept.index(a) for a in own], dtype=np.int64)

    def _shapes(self, excluded: Sequence[Decision]) -> Ints:
        """Return excluded shapes, without those with an option not on offer."""
        number = {option: o for o, option in enumerate(self.pairs)}
        shapes = []
        for decision in (last_first(other, self.leaders) for other in excluded):
            runs = []
            for j, strategy, hosted in zip(
                decision.order, decision.strategies, decision.hosted, strict=True
            ):
                known = self.data.part.clusters[j].strategies
                option = (j, known.index(strategy)) if strategy in known else None
                runs.append((number.get(option, -1) if option else -1, hosted))
            if decision.stages == self.data.stages and all(o >= 0 for o, _ in runs):
                shapes.append(runs[::-1])
        rows = np.full((len(shapes), self.data.stages + 1, 2), -1, dtype=np.int64)
        for row, runs in zip(rows, shapes, strict=True):
            row[: len(runs)] = runs
        return rows


def most_stages(data: ProgramData, j: int) -> Ints:
    """Return how many stages a cluster may have with each of its strategies; (K,)."""
    domain, counts = data.permitted.stages[j], np.arange(data.stages + 1)
    permitted = np.array([m > 0 and domain.permits(m) for m in range(len(counts))])
    most = np.minimum(data.part.clusters[j].max_stages, data.stages)
    if data.principles.sharing != "one":
        # Several strategies share the devices: the pin is on all stages together.
        return most * permitted.any()
    found: Ints = np.maximum.accumulate(np.where(permitted, counts, 0))[most]
    return found
