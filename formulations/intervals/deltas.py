"""Delta of h-1f1b in the interval program: its range before times are known.

HAPT Eq. 2 compares kappa with ``lambda_0 = max(max tau, max kappa)``
(``ScheduleRule.thresholds``). All are whole ticks, so delta changes only where lambda_0
reaches one of finitely many values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.formulations.scale import PERIOD_SCALE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.formulations.cp_sat.sets import Sets


class AdaptiveDeltas:
    """Ranges of lambda_0 and delta, from bounds and from the available strategies.

    Attributes
    ----------
    rule
        The schedule's rule.
    low, high
        Range of lambda_0 of all plans within the cutoff, in ticks.
    thresholds
        Values in that range at which delta of some boundary changes, ascending.
    """

    def __init__(self, sets: Sets, pairs: frozenset[tuple[int, int]]) -> None:
        """``pairs``: clusters (i, j) such that j may come directly after i."""
        self.rule = rule = sets.rule
        self._crossings = len(sets.clusters) - 1
        self.low = _least_longest(sets)
        period = sets.period_max
        longest = int(sets.part.transfer_ns.max(initial=0))
        # Two stages and the boundary between them are a window of at most
        # delta + 1 periods.
        kappa_max = period * (rule.most_across + 1) // 2 // PERIOD_SCALE
        self.high = max(self.low, period // PERIOD_SCALE, min(longest, kappa_max))
        inside = sorted({k for k in _inside(sets) if k <= self.high})
        across = sorted({k for k in _across(sets, pairs) if k <= self.high})
        self._inside = self._range(inside or across)
        self._across = self._range(across or inside)
        reached = {
            threshold * kappa
            for threshold in rule.thresholds
            for kappa in [*inside, *across]
            if self.low < threshold * kappa <= self.high
        }
        self.thresholds = sorted(reached)

    def least(self, kappa: int) -> int:
        """Return the least delta of a boundary."""
        return self.rule.delta(kappa, self.high, crosses=False)

    def most(self, kappa: int) -> int:
        """Return the largest delta of a boundary."""
        return self.rule.delta(kappa, self.low, crosses=False)

    def limit(self, d: int, kappa: int) -> int:
        """Return the least lambda_0 at which a boundary adds less than d."""
        return self.rule.thresholds[d - self.rule.inside - 1] * kappa

    def warmups(self, after: int) -> tuple[int, int]:
        """Return the least and the largest W with ``after`` boundaries after it."""
        crossings = min(after, self._crossings)
        (least, most), (least_across, most_across) = self._inside, self._across
        return (
            1 + least * after + min(0, least_across - least) * crossings,
            1 + most * after + max(0, most_across - most) * crossings,
        )

    def _range(self, kappas: list[int]) -> tuple[int, int]:
        if not kappas:
            return self.rule.inside, self.rule.most_inside
        return self.least(kappas[0]), self.most(kappas[-1])


def _least_longest(sets: Sets) -> int:
    """Return a lower bound on max tau: the fastest pass, spread evenly."""
    chain = sets.chain
    counts = [
        int(body) + lead + trail
        for body, lead, trail in zip(
            chain.prefix[-1], chain.lead, chain.trail, strict=True
        )
    ]
    fastest = [min(column) for column in zip(*sets.tau.values(), strict=True)]
    total: int = sum(n * tau for n, tau in zip(counts, fastest, strict=False))
    return -(-total // sets.stages)


def _inside(sets: Sets) -> Iterator[int]:
    for j, k in sets.capacity:
        a = sets.layout(j, k)
        for x in sets.chain.cut_classes:
            yield int(sets.part.transfer_ns[x, a, a])


def _across(sets: Sets, pairs: frozenset[tuple[int, int]]) -> Iterator[int]:
    for i, j in sorted(pairs):
        for a in sets.layouts(i):
            for b in sets.layouts(j):
                for x in sets.chain.cut_classes:
                    yield int(sets.part.transfer_ns[x, a, b])
