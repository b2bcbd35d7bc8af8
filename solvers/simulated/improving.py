"""Improve the first plan by random changes where the closed form is far off.

If stages are folded, orders of passes make them wait in ways that the closed form
leaves out, so its best plan is often 10 to 20% from the quickest one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.decisions.pricer import Pricer
from hetopt.solvers.race.improving import improved

if TYPE_CHECKING:
    from hetopt.formulations.decision import Decision
    from hetopt.solvers.request import Request
    from hetopt.solvers.simulated.ledger import SimulatedLedger

#: How often plans are improved: the first time the best one, then drawn ones, and at
#: last the best again. How many plans each of them tries.
_ROUNDS, _TRIES = 5, 250
#: Share of the time left, and seconds, that this takes at most.
_SHARE, _MOST_S = 0.3, 5.0


class SimulatedPricer(Pricer):
    """Prices decisions by their simulated times."""

    def value(self, decision: Decision) -> int | None:
        """Return the time in 1 / PERIOD_SCALE ticks; None if it is no plan."""
        if super().value(decision) is None:
            return None
        return self.simulated_ns(decision) * PERIOD_SCALE


def improve_start(ledger: SimulatedLedger, request: Request) -> None:
    """Improve the best plan of a ledger, and its first limit, before the race."""
    ranked, left_s = ledger.ranked(), request.deadline.left_s()
    if not (ranked and rule_of(request.table.schedule).folded):
        return
    share_s = _MOST_S if left_s is None else min(_MOST_S, _SHARE * left_s)
    until = request.deadline.within(share_s)
    pricer, best = SimulatedPricer(request.problem, request.table), ranked[0]
    for number in range(ledger.improved, _ROUNDS):
        found = improved(
            pricer,
            best if number in (0, _ROUNDS - 1) else None,
            tries=_TRIES,
            seed=f"{request.seed} {number}",
            goes_on=lambda: not until.is_over(),
        )
        if found is not None and found.value < best.value:
            best = found
        if until.is_over():
            break
        ledger.improved += 1
    if ledger.find(best):
        ledger.first = ledger.ranked()[-1].value
