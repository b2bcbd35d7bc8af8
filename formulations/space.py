"""The strategies worth considering: those that no other strategy can replace.

Strategy k' *replaces* k if putting k' in place of k turns every plan into one that is
feasible and that the tie rule of the reported plan prefers. Leaving k out then changes
neither the optimum nor the reported plan.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.fitting_units import units_by_warmup
from hetopt.formulations.paths import Lost, lengthens_nothing, rise, risen
from hetopt.formulations.restricting import restrict
from hetopt.problem.training.principles import PRUNED
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.chain import Chain
    from hetopt.formulations.paths import Simulated
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.training.principles import Principles


def undominated(
    table: CostTable,
    part: TableSlice,
    chain: Chain,
    principles: Principles = PRUNED,
    simulated: Simulated | None = None,
) -> TableSlice:
    """Return the slice without strategies that another one replaces.

    k' replaces k if its cluster has room for as many stages, it fits into memory
    wherever k fits, and is faster per body unit by at least what it may lose at the
    boundaries of a stage and in gradient synchronisation. It must also come first in
    the tie rule: be strictly faster, need fewer devices, or, with as many devices,
    come before k in the table.

    If warm-up counts depend on times (``h-1f1b``), a faster strategy can change them
    for the worse, so there k' must equal k in every time.

    Without P4 the stages of k may be beside any others of their cluster: k' must
    need no more devices. As they may then become one run with these, which the tie rule
    may like less, k' must be strictly faster or need fewer devices; if tp must not
    rise, it must have the tp of k.

    Parameters
    ----------
    simulated
        The plans to consider, if k' must also lengthen no path through the events of
        any of them; then none of them takes longer, simulated or in closed form. Not
        where warm-up counts are free: the best with k' may differ from those with k
        and have a longer closed form.
    """
    keep = []
    for j in range(len(part.clusters)):
        rivals = _Rivals(
            table=table,
            part=part,
            chain=chain,
            principles=principles,
            simulated=simulated,
            j=j,
        )
        keep.append(np.flatnonzero(~rivals.replaced()))
    return restrict(part, keep)


#: Most numbers that are compared at once, to limit memory.
_MOST_CELLS = 2**24
#: Of the columns that say what fits, every so many-th is compared first.
_FEW = 16


class _Rivals:
    """Replacement among the strategies of one cluster."""

    def __init__(
        self,
        table: CostTable,
        part: TableSlice,
        chain: Chain,
        principles: Principles,
        simulated: Simulated | None,
        j: int,
    ) -> None:
        self.simulated = simulated
        self.cluster = cluster = part.clusters[j]
        self.part = part
        self.chain = chain
        self.rule = rule_of(table.schedule, table.warmup_epsilon)
        self.usable_bytes = table.usable_bytes[j]
        # Times of units that parts of the closed form depend on.
        self.counted = [cluster.round_trip_ns]
        if self.rule.splits:
            # Lambda and the fill depend on different times; windows on their mean.
            self.counted.append(cluster.fill_ns)
        if self.rule.folded:
            # Here windows depend on a third time.
            self.counted.append(cluster.handed_on_ns)
        self.sizes = np.hstack(
            [
                cluster.state_bytes,
                cluster.activation_bytes,
                cluster.temporary_bytes,
                cluster.fixed_bytes[:, None],
                *([] if cluster.weight_bytes is None else [cluster.weight_bytes]),
            ]
        )
        # With chunks, or a split backward pass, the memory of units depends on p.
        by_warmup = chain.is_uniform and part.chunks == 1 and not self.rule.splits
        self.units = None
        if by_warmup:
            self.units = units_by_warmup(
                cluster,
                chain,
                self.rule,
                self.usable_bytes,
                part.microbatches,
                simulated,
            )
        self.others = np.unique(
            np.concatenate(
                [
                    other.layout
                    for k, other in enumerate(part.clusters)
                    if k != j or principles.sharing != "one"
                ]
                or [np.zeros(0, dtype=np.int64)]
            )
        )
        self.tp = np.array([strategy.tp for strategy in cluster.strategies])
        self.falling = principles.sharing == "falling-tp"
        self.by_index = principles.sharing == "one"

    def replaced(self) -> NDArray[np.bool_]:
        """Return which strategies another strategy replaces; (K,).

        With expert degrees there are many strategies, and most are replaced by one that
        differs in these alone, or has as many devices. So they are first compared
        within such groups, then all that remain with each other.
        """
        strategies = self.cluster.strategies
        found = np.zeros(len(strategies), dtype=bool)
        keys: list[list[Hashable]] = [[0] * len(strategies)]
        if any(strategy.has_expert_degrees for strategy in strategies):
            meshes: list[Hashable] = [_mesh(s) for s in strategies]
            keys = [meshes, [s.devices for s in strategies], *keys]
        for key in keys:
            groups = _alike(key, np.flatnonzero(~found))
            for own, new in self._pairs(groups):
                found[self._replaced_by(own, new)] = True
        return found

    def _pairs(
        self, groups: list[NDArray[np.intp]]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield pairs k, k' of the same group, as many at once as memory permits."""
        width = 1 if self.units is None else self.units.shape[1]
        most = max(1, _MOST_CELLS // width)
        waiting: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []
        cells = 0
        for group in groups:
            step = max(1, most // len(group))
            for first in range(0, len(group), step):
                owns = group[first : first + step]
                if cells + len(owns) * len(group) > most and waiting:
                    yield _joined(waiting)
                    waiting, cells = [], 0
                waiting.append(self._able(owns, group))
                cells += len(owns) * len(group)
        if waiting:
            yield _joined(waiting)

    def _replaced_by(
        self, own: NDArray[np.intp], new: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Return those k that are replaced by their k'."""
        if self.units is None:
            # Column by column: most pairs drop out at the first few.
            for size in self.sizes.T:
                fits = size[new] <= size[own]
                own, new = own[fits], new[fits]
        if self.rule.thresholds:
            wins = self._same_times(own, new) & self._first(own, new)
            own, new = own[wins], new[wins]
        else:
            own, new = self._saving(own, new)
        return own if self.units is None else own[self._fit_where(own, new)]

    def _able(
        self, owns: NDArray[np.intp], rows: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return pairs k, k' that the nodes and tensor degrees permit.

        Parameters
        ----------
        owns, rows
            The strategies that k and k' may be.
        """
        devices, most = self.cluster.devices, self.cluster.max_stages
        able = most[rows] >= most[owns, None]
        if not self.by_index:
            able &= devices[rows] <= devices[owns, None]
        if self.falling:
            able &= self.tp[rows] == self.tp[owns, None]
        first, second = np.nonzero(able)
        own, new = owns[first], rows[second]
        return own[own != new], new[own != new]

    def _saving(
        self, own: NDArray[np.int64], new: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the pairs in which k' is preferred wherever it fits."""
        # Most pairs drop out at once: no body unit may be slower.
        for times in self.counted:
            for kind in self.chain.kinds:
                quicker = times[new, kind] <= times[own, kind]
                own, new = own[quicker], new[quicker]
        gain = self._gain(own, new)
        # No loss is negative.
        own, new, gain = own[gain >= 0], new[gain >= 0], gain[gain >= 0]
        loss, quick = self._loss(own, new)
        wins = (gain > loss) | self._first(own, new)
        able = quick & (gain >= loss) & wins
        own, new = own[able], new[able]
        if self.simulated is not None:
            able = lengthens_nothing(
                self.cluster, self.chain, self._boundaries, own, new
            )
            own, new = own[able], new[able]
        return own, new

    def _first(
        self, own: NDArray[np.int64], new: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether k' comes before k in the tie rule if both take equally long."""
        devices = self.cluster.devices
        same = (devices[new] == devices[own]) & (new < own) & self.by_index
        first: NDArray[np.bool_] = same | (devices[new] < devices[own])
        return first

    def _fit_where(
        self, own: NDArray[np.int64], new: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether k' fits wherever k does, for each pair."""
        assert self.units is not None
        fits: NDArray[np.bool_]
        fits = np.all(self.sizes[new] <= self.sizes[own], axis=1)
        other, units = np.flatnonzero(~fits), self.units
        # Most pairs drop out at a first comparison of a few warm-up counts.
        for columns in (units[:, ::_FEW], units):
            more = columns[new[other]] >= columns[own[other]]
            other = other[more.all(axis=1)]
        fits[other] = True
        return fits

    def _gain(
        self, own: NDArray[np.int64], new: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the least time that a stage saves with k'; negative if it may lose.

        Every stage holds a body unit, and none may be slower; what an end unit
        loses is subtracted from the saving, as it occurs once.
        """
        saved = np.minimum.reduce([ns[own] - ns[new] for ns in self.counted])
        if self.rule.all_first:
            # Forward and backward paces are separate terms.
            forward, backward = self.cluster.forward_ns, self.cluster.backward_ns
            slower = (forward[new] > forward[own]) | (backward[new] > backward[own])
            saved = np.where(slower.any(axis=1, keepdims=True), -1, saved)
        lost = np.maximum(
            self.cluster.end_unit_ns[new] - self.cluster.end_unit_ns[own], 0
        )
        net = saved - lost
        ends = np.minimum(net, 0) @ (
            np.array(self.chain.lead) + np.array(self.chain.trail)
        )
        body = net[:, list(self.chain.kinds)].min(axis=1)
        return np.where(body < 0, -1, body + ends)

    def _loss(
        self, own: NDArray[np.int64], new: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the most that a stage loses with k' at its boundaries and in g.

        Also returns whether every occupancy stays within the least period of a plan
        with k, which is at least omega of k and tau of one unit.
        """
        sync_ns, layout = self.cluster.sync_ns, self.cluster.layout
        loss = np.maximum(sync_ns[new] - sync_ns[own], 0)
        lost = self._boundaries
        pair = layout[own], layout[new]
        return loss + lost.most[pair], lost.occupied[pair] <= self._pace()[own]

    @cached_property
    def _boundaries(self) -> Lost:
        """Losses of a stage at its boundaries with layout b in place of a.

        The boundary after a stage counts for that stage, and the one before it also for
        the first stage of a cluster; with several chunks the way back counts for the
        last and the first of all. What a round loses (MODEL.md section 4) is no more
        than that, so a rival that gains as much is never later.

        Returns
        -------
        By layouts a and b of the cluster.
        """
        part = self.part
        own = np.unique(self.cluster.layout)
        shape = len(own), len(own)
        after, before = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        longer = np.full(shape, -1)
        for kappa, omega in zip(part.transfer_ns, part.occupancy_ns, strict=True):
            after = np.maximum(after, rise(kappa[own, own]))
            longer = np.maximum(longer, risen(omega[own, own]))
            for y in self.others:
                after = np.maximum(after, rise(kappa[own, y]))
                before = np.maximum(before, rise(kappa[y, own]))
                longer = np.maximum(longer, risen(omega[own, y]))
                longer = np.maximum(longer, risen(omega[y, own]))
        lost = 2 * after + 2 * before
        behind = np.zeros(shape, np.int64)
        if part.tied_ns is not None:
            for y in self.others:
                behind = np.maximum(behind, rise(part.tied_ns[y, own]))
            tied = np.zeros(shape, np.int64)
            for times in (*part.tied_ns[own].T, *part.tied_ns[:, own]):
                tied = np.maximum(tied, rise(times))
            lost += np.maximum(tied, rise(part.tied_ns[own, own]))
        found = np.zeros((3, *(len(part.layouts),) * 2), np.int64)
        found[:, own[:, None], own] = lost, longer, behind
        return Lost(*found)

    def _pace(self) -> NDArray[np.int64]:
        """Return the least period of a plan with a unit of each strategy; (K,)."""
        body = list(self.chain.kinds)
        pace: NDArray[np.int64] = self.cluster.round_trip_ns[:, body].min(axis=1)
        if self.rule.all_first:
            pace = np.zeros_like(pace)
        return pace

    def _same_times(
        self, own: NDArray[np.int64], new: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether k' equals k in every time a program reads."""
        cluster = self.cluster
        times = np.hstack(
            [
                cluster.forward_ns,
                cluster.backward_ns,
                cluster.sync_ns[:, None],
                cluster.sync_unit_ns,
            ]
        )
        same: NDArray[np.bool_] = (times[new] == times[own]).all(axis=1)
        # One layout has one set of boundary times; those of two hardly ever agree.
        same &= cluster.layout[new] == cluster.layout[own]
        return same


def _alike(key: Sequence[Hashable], rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Return the rows that have the same key, group by group."""
    groups: dict[Hashable, list[int]] = {}
    for row in rows.tolist():
        groups.setdefault(key[row], []).append(row)
    return [np.array(group) for group in groups.values() if len(group) > 1]


def _mesh(strategy: Strategy) -> tuple[object, ...]:
    """Return a strategy without its expert degrees."""
    own = strategy
    return own.dp, own.cp, own.tp, own.recompute, own.zero


def _joined(
    pairs: list[tuple[NDArray[np.intp], NDArray[np.intp]]],
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return several arrays of pairs as one."""
    own, new = zip(*pairs, strict=True)
    return np.concatenate(own), np.concatenate(new)
