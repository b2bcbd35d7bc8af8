"""Choose the order in which every q is bounded: least bound first."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING

from hetopt.formulations.scale import scaled_below, ticks_above
from hetopt.solvers.bounds.bound_q import BoundTask
from hetopt.solvers.race.messages import NO_CUTOFF

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.solvers.bounds.bound_q import QBounds
    from hetopt.solvers.race.ledger import Ledger

#: Most visits of one q, and plan searches it gets at least before it is given up.
_VISITS, _PLAN_SEARCHES = 24, 4
#: Visits before plans are looked for; with a limit, which may refute all of them.
_BOUNDED_FIRST, _LIMITED_FIRST = 1, 6
#: A q is bounded until its bound exceeds the next best one by this factor.
_AHEAD = 1.01


class QOrder:
    """Chooses the q to visit next, and records the bounds that visits find.

    Parameters
    ----------
    plans
        Whether to look for plans, too.
    """

    def __init__(self, ledger: Ledger, *, plans: bool = True) -> None:
        self.ledger, self._plans = ledger, plans
        self._counts = sorted({program.microbatches for program in ledger.open()})
        self._known: dict[int, QBounds] = {}
        self._visits: Counter[int] = Counter()
        self._busy: set[int] = set()
        self._first = _BOUNDED_FIRST if ledger.limit == NO_CUTOFF else _LIMITED_FIRST

    def tasks(self) -> Iterator[BoundTask | None]:
        """Yield visits; None while there is nothing to do."""
        while True:
            limit = _nanoseconds(self.ledger.cutoff)
            waiting = sorted(
                (self._known[q].bound if q in self._known else 0.0, q)
                for q in self._counts
                if q not in self._busy and self._is_worthwhile(q, limit)
            )
            if not waiting:
                yield None
                continue
            bound, q = waiting[0]
            others = min((other for other, _ in waiting[1:]), default=inf)
            ranked = self.ledger.ranked()
            self._busy.add(q)
            yield BoundTask(
                microbatches=q,
                visit=self._visits[q],
                plans=self._plans and self._visits[q] >= self._first,
                known=self._known.get(q),
                goal=max(others, bound) * _AHEAD,
                order=ranked[0].decision.order[::-1] if ranked else None,
            )
            self._visits[q] += 1

    def take(self, task: BoundTask, found: QBounds) -> None:
        """Record what a visit found."""
        q, cutoff = task.microbatches, self.ledger.cutoff
        limit = _nanoseconds(cutoff)
        self._busy.discard(q)
        self._known[q] = found
        for program in self.ledger.open():
            if program.microbatches != q:
                continue
            if found.bound == limit == inf:
                program.how = "infeasible"
                continue
            # Boxes that were dropped have no plan within the cutoff.
            below = cutoff + 1
            if found.bound <= limit:
                below = scaled_below(found.bound)
            program.bound = max(program.bound, below)
        self.ledger.refute()

    def _is_worthwhile(self, q: int, limit: float) -> bool:
        known, visits = self._known.get(q), self._visits[q]
        if known is None:
            return True
        if known.bound > limit:
            return False
        if not self._plans:
            return visits < _LIMITED_FIRST and not known.is_done
        if visits >= _VISITS or known.is_done:
            return known.plan_searches < _PLAN_SEARCHES and visits < 2 * _VISITS
        return True


def _nanoseconds(cutoff: int) -> float:
    """Return a cutoff in ns, rounded up; infinite if there is none."""
    return inf if cutoff == NO_CUTOFF else ticks_above(cutoff)
