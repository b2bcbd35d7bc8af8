"""The strategies worth looking at: those no other strategy can replace.

Strategy k' *replaces* k when putting k' in the place of k turns every plan into one
that is feasible and that the tie rule of the reported plan prefers. Leaving k out
then changes neither the optimum nor the plan that is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.restricting import restrict
from hetopt.problem.principles import PRUNED
from hetopt.schedule.schedules import MAX_DELTA, rule_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table import CostTable, TableSlice
    from hetopt.formulations.chain import Chain
    from hetopt.problem.principles import Principles


def undominated(
    table: CostTable,
    part: TableSlice,
    chain: Chain,
    principles: Principles = PRUNED,
) -> TableSlice:
    """Return the slice without strategies that another one replaces.

    k' replaces k when it needs no more devices, fits into memory wherever k fits,
    and is faster per body unit by at least what it may lose at the boundaries of a
    stage and in gradient synchronisation. It must also come first in the tie rule:
    be strictly faster, need fewer devices, or stand before k in the table.

    Where times decide warm-up counts (``h-1f1b``), what is faster can change them for
    the worse, so there k' must equal k in every time.

    Under ``auto`` k' must replace k both under gpipe and whatever the warm-up counts.

    Without P4 the stages of k may stand beside any others of their cluster. As they
    may then become one run with these, which the tie rule may like less, k' must be
    strictly faster or need fewer devices; where tp must not rise, it must be k's.
    """
    keep = []
    for j, cluster in enumerate(part.clusters):
        rivals = _Rivals(
            table=table, part=part, chain=chain, principles=principles, j=j
        )
        keep.append(
            np.array(
                [k for k in range(len(cluster.strategies)) if not rivals.replace(k)],
                dtype=np.int64,
            )
        )
    return restrict(part, keep)


class _Rivals:
    """Replacement among the strategies of one cluster."""

    def __init__(
        self,
        table: CostTable,
        part: TableSlice,
        chain: Chain,
        principles: Principles,
        j: int,
    ) -> None:
        self.cluster = cluster = part.clusters[j]
        self.part = part
        self.chain = chain
        self.rule = rule_of(table.schedule)
        self.usable_bytes = table.usable_bytes[j]
        self.tau = cluster.forward_ns + cluster.backward_ns
        self.sizes = np.hstack(
            [
                cluster.state_bytes,
                cluster.activation_bytes,
                cluster.temporary_bytes,
                cluster.fixed_bytes[:, None],
            ]
        )
        # With chunks what units hold at rest depends on p.
        by_warmup = chain.is_uniform and part.chunks == 1
        self.units = self._units_by_warmup() if by_warmup else None
        self.others = np.array(
            [
                a
                for a, layout in enumerate(part.layouts)
                if layout.cluster != j or principles.sharing != "one"
            ],
            dtype=np.int64,
        )
        self.tp = np.array([strategy.tp for strategy in cluster.strategies])
        self.falling = principles.sharing == "falling-tp"
        self.by_index = principles.sharing == "one"

    def replace(self, k: int) -> bool:
        """Whether some other strategy replaces strategy k."""
        cluster = self.cluster
        able = (cluster.devices <= cluster.devices[k]) & self._fit_where(k)
        able[k] = False
        if self.falling:
            able &= self.tp == self.tp[k]
        if self.rule.thresholds:
            same = self._same_times(k)
            earlier = (np.arange(len(able)) < k) & self.by_index
            return bool(
                (able & same & ((cluster.devices < cluster.devices[k]) | earlier)).any()
            )
        rivals = np.flatnonzero(able)
        if not len(rivals):
            return False
        gain = self._gain(k, rivals)
        # No loss is negative.
        rivals, gain = rivals[gain >= 0], gain[gain >= 0]
        if not len(rivals):
            return False
        loss, quick = self._loss(k, rivals)
        wins = (
            (gain > loss)
            | (cluster.devices[rivals] < cluster.devices[k])
            | ((rivals < k) & self.by_index)
        )
        return bool((quick & (gain >= loss) & wins).any())

    def _fit_where(self, k: int) -> NDArray[np.bool_]:
        """Whether each strategy fits wherever k does."""
        smaller: NDArray[np.bool_] = (self.sizes <= self.sizes[k]).all(axis=1)
        if self.units is not None:
            smaller |= (self.units >= self.units[k]).all(axis=1)
        return smaller

    def _units_by_warmup(self) -> NDArray[np.int64]:
        """Body units that fit beside each end, for every W; shape (K, ends * W)."""
        cluster, chain = self.cluster, self.chain
        (f,) = chain.kinds
        most = min(self.part.microbatches, MAX_DELTA * chain.length)
        warmups = np.arange(1, most + 1)
        if self.rule.all_first:
            warmups = np.array([self.part.microbatches])
        elif self.rule.free:
            warmups = np.arange(1, self.part.microbatches + 1)
        columns = []
        for ends in (
            np.zeros(len(chain.lead), dtype=np.int64),
            np.array(chain.lead),
            np.array(chain.trail),
            np.array(chain.lead) + np.array(chain.trail),
        ):
            present = ends > 0
            present[f] = True
            temporary = cluster.temporary_bytes[:, present].max(axis=1, initial=0)
            state = cluster.state_bytes @ ends
            activation = cluster.activation_bytes @ ends
            room = (
                self.usable_bytes
                - (cluster.fixed_bytes + temporary + state)[:, None]
                - activation[:, None] * warmups
            )
            unit = (
                cluster.state_bytes[:, f, None]
                + cluster.activation_bytes[:, f, None] * warmups
            )
            columns.append(np.minimum(room // np.maximum(unit, 1), chain.length))
        units: NDArray[np.int64] = np.maximum(np.hstack(columns), 0)
        return units

    def _gain(self, k: int, rivals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Least time a stage of each rival saves over k; negative if it may lose.

        Every stage holds a body unit, and none may be slower; what an end unit
        loses counts against the saving, as it occurs once.
        """
        saved = self.tau[k] - self.tau[rivals]
        if self.rule.may_be_all_first:
            # Forward and backward paces count apart.
            slower = (self.cluster.forward_ns[rivals] > self.cluster.forward_ns[k]) | (
                self.cluster.backward_ns[rivals] > self.cluster.backward_ns[k]
            )
            saved = np.where(slower.any(axis=1, keepdims=True), -1, saved)
        lost = np.maximum(
            self.cluster.sync_unit_ns[rivals] - self.cluster.sync_unit_ns[k], 0
        )
        net = saved - lost
        ends = np.minimum(net, 0) @ (
            np.array(self.chain.lead) + np.array(self.chain.trail)
        )
        body = net[:, list(self.chain.kinds)].min(axis=1)
        return np.where(body < 0, -1, body + ends)

    def _loss(
        self, k: int, rivals: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Most a stage of each rival loses at its boundaries and in g.

        A stage answers for the boundary after it, and the first of its cluster also
        for the one before it: with several chunks the last and the first of all for
        the way back. What a round loses (MODEL.md section 4) is no more than that, so
        a rival that gains as much is never later.

        Also returns whether every occupancy stays below what the period of a plan with
        k is anyhow: omega of k or tau of one unit.
        """
        part = self.part
        own, new = self.cluster.layout[k], self.cluster.layout[rivals]
        pace = int(self.tau[k, list(self.chain.kinds)].min())
        if self.rule.all_first:
            pace = 0
        elif self.rule.may_be_all_first:
            # Then each of the two paces is at least that of one unit.
            body = list(self.chain.kinds)
            pace = int(self.cluster.forward_ns[k, body].min())
            pace = min(pace, int(self.cluster.backward_ns[k, body].min()))
        loss = np.maximum(self.cluster.sync_ns[rivals] - self.cluster.sync_ns[k], 0)
        quick = np.ones(len(rivals), dtype=bool)
        after = np.zeros(len(rivals), dtype=np.int64)
        before = np.zeros(len(rivals), dtype=np.int64)
        for x in range(len(part.transfer_ns)):
            kappa, omega = part.transfer_ns[x], part.occupancy_ns[x]
            after = np.maximum(after, kappa[new, new] - kappa[own, own])
            quick &= omega[new, new] <= max(omega[own, own], pace)
            if not len(self.others):
                continue
            out = np.ix_(new, self.others)
            into = np.ix_(self.others, new)
            after = np.maximum(
                after, (kappa[out] - kappa[own, self.others]).max(axis=1)
            )
            before = np.maximum(
                before, (kappa[into].T - kappa[self.others, own]).max(axis=1)
            )
            quick &= (omega[out] <= np.maximum(omega[own, self.others], pace)).all(
                axis=1
            )
            quick &= (np.maximum(omega[self.others, own], pace) >= omega[into].T).all(
                axis=1
            )
        if part.tied_ns is not None:
            rows = part.tied_ns[new] - part.tied_ns[own]
            columns = (part.tied_ns[:, new] - part.tied_ns[:, [own]]).T
            both = part.tied_ns[new, new] - part.tied_ns[own, own]
            tied = np.hstack([rows, columns, both[:, None]]).max(axis=1)
            loss = loss + np.maximum(tied, 0)
        return loss + 2 * after + 2 * before, quick

    def _same_times(self, k: int) -> NDArray[np.bool_]:
        """Which strategies equal k in every time a program reads."""
        cluster = self.cluster
        times = np.hstack(
            [
                cluster.forward_ns,
                cluster.backward_ns,
                cluster.sync_ns[:, None],
                cluster.sync_unit_ns,
            ]
        )
        same: NDArray[np.bool_] = (times == times[k]).all(axis=1)
        # One layout has one set of boundary times; others hardly ever agree.
        same &= cluster.layout == cluster.layout[k]
        return same
