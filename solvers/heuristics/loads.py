"""Body units that stages can hold at one micro-batch count, by time and by memory.

For heuristics that place layers before warm-up counts and times are known. If body
units differ in kind, memory counts each as the largest: what fits here fits in the
table, unless ``h-1f1b`` needs more warm-ups than assumed.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.decision import Decision
from hetopt.schedule.schedules import rule_of
from hetopt.schedule.warmup import warmup_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.chain import Chain

    #: Cluster and strategy index of a stage.
    Host = tuple[int, int]


class Loads:
    """Times and memory of hosts (cluster, strategy index) at one micro-batch count."""

    def __init__(self, table: CostTable, part: TableSlice, chain: Chain) -> None:
        self.part = part
        self._chain = chain
        self._weights = self._typical()
        self._usable = table.usable_bytes
        self._rule = rule = rule_of(table.schedule, table.warmup_epsilon)
        self._epsilon = table.warmup_epsilon
        self.unit_ns = lru_cache(maxsize=None)(self._unit_ns)
        self.least_ns = lru_cache(maxsize=None)(self._least_ns)
        self.ends_ns = lru_cache(maxsize=None)(self._ends_ns)
        self.room = lru_cache(maxsize=None)(self._room)
        self.transfer_ns = lru_cache(maxsize=None)(self._transfer_ns)
        #: Whether stages of one cluster wait for every transfer between them.
        self.waits = rule.most_inside == 1

    def _unit_ns(self, host: Host) -> float:
        """Return the mean time of a body unit, forward and backward."""
        return self._sum(host, self._chain.prefix[-1]) / self._chain.length

    def _least_ns(self, host: Host) -> float:
        """Return a lower bound on the time of body units per unit of their weight.

        The weights of all body units add up to their number, so lambda and the fill may
        be bounded as if each took this long. If units are all alike it is the time of
        one.
        """
        j, k = host
        own = self.part.clusters[j]
        tau = (own.forward_ns[k] + own.backward_ns[k])[list(self._chain.kinds)]
        return max(1.0, float((tau / self._weights).min()))

    def _typical(self) -> NDArray[np.float64]:
        """Return the weight of each body kind: its mean time relative to the others."""
        kinds = list(self._chain.kinds)
        tau = [
            (own.forward_ns + own.backward_ns)[:, kinds]
            for own in self.part.clusters
            if own.strategies
        ]
        counts = self._chain.prefix[-1][kinds]
        if not tau:
            return np.ones(len(kinds))
        mean = np.maximum(np.concatenate(tau).mean(axis=0), 1)
        weights: NDArray[np.float64] = mean * (self._chain.length / (mean @ counts))
        return weights

    def _ends_ns(self, host: Host, *, first: bool, last: bool) -> int:
        """Return the time of embedding and head on a stage that holds them."""
        return self._sum(host, self._ends(first=first, last=last))

    def _sum(self, host: Host, counts: Sequence[int]) -> int:
        j, k = host
        own = self.part.clusters[j]
        return int((own.forward_ns[k] + own.backward_ns[k]) @ np.asarray(counts))

    def _ends(self, *, first: bool, last: bool) -> list[int]:
        chain = self._chain
        return [
            a * first + b * last for a, b in zip(chain.lead, chain.trail, strict=True)
        ]

    def _room(self, host: Host, warmup: int, *, first: bool, last: bool) -> int:
        """Return how many body units fit, from 0 to all of them.

        Parameters
        ----------
        first, last
            Whether the stage is the first or the last one, and so holds an end.
        """
        j, k = host
        own, kinds = self.part.clusters[j], list(self._chain.kinds)
        ends = np.array(self._ends(first=first, last=last))
        held = [*kinds, *np.flatnonzero(ends)]
        inflight = min(warmup, self.part.microbatches)
        base = int(own.fixed_bytes[k]) + int(own.temporary_bytes[k, held].max())
        base += int(own.state_bytes[k] @ ends)
        base += inflight * int(own.activation_bytes[k] @ ends)
        each = int(own.state_bytes[k, kinds].max())
        each += inflight * int(own.activation_bytes[k, kinds].max())
        left = self._usable[j] - base
        return max(0, min(self._chain.length, left // max(1, each)))

    def _transfer_ns(self, before: Host, after: Host, *, slowest: bool) -> int:
        """Return kappa of the slowest or of the quickest cut between two stages."""
        a, b = (int(self.part.clusters[j].layout[k]) for j, k in (before, after))
        cuts = self.part.transfer_ns[list(self._chain.cut_classes), a, b]
        return int(cuts.max(initial=0) if slowest else cuts.min(initial=2**62))

    def warmups(self, hosts: Sequence[Host], period_ns: float) -> tuple[int, ...]:
        """Return the warm-up counts for which memory is reserved.

        Parameters
        ----------
        period_ns
            Lower bound on the longest stage's time.
        """
        pairs = list(pairwise(hosts))
        return warmup_counts(
            self._rule.name,
            microbatches=self.part.microbatches,
            crosses=[before[0] != after[0] for before, after in pairs],
            round_trip_ns=[int(period_ns)] * len(hosts),
            transfer_ns=[
                self.transfer_ns(before, after, slowest=True)
                if self._rule.thresholds
                else 0
                for before, after in pairs
            ],
            epsilon=self._epsilon,
        )

    def decision(self, hosts: Sequence[Host], units: Sequence[int]) -> Decision:
        """Return the decision with these hosts and body units.

        Parameters
        ----------
        units
            Body units of every stage, without embedding and head.
        """
        runs = [(host, len(list(run))) for host, run in groupby(hosts)]
        clusters = self.part.clusters
        return Decision(
            microbatches=self.part.microbatches,
            order=tuple(j for (j, _), _ in runs),
            strategies=tuple(clusters[j].strategies[k] for (j, k), _ in runs),
            hosted=tuple(stages for _, stages in runs),
            units=self._chain.with_ends(units),
        )
