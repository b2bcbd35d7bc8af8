"""Price, rank and report the plans of a heuristic as the race does."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hetopt.base.deadline import Stopped
from hetopt.base.run_until import run_until
from hetopt.solvers.decisions.pricer import Pricer
from hetopt.solvers.race.first_plan import first_plan
from hetopt.solvers.unproven.ledger import UnprovenLedger

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.formulations.decision import Decision
    from hetopt.results.result import Result
    from hetopt.solvers.request import Request


class Finds:
    """The plans that a heuristic finds within its time limit.

    Attributes
    ----------
    cutoff
        Objective, in 1 / PERIOD_SCALE ticks, above which no plan is kept.
    """

    def __init__(
        self, request: Request, solver: str, *, context: bool, equal: bool
    ) -> None:
        self.request, self.problem, self.table = request, request.problem, request.table
        self.ledger = UnprovenLedger(request, solver)
        self.pricer = Pricer(request.problem, request.table)
        self.chain = self.pricer.chain
        self.cutoff = self.ledger.cutoff
        self._first = partial(
            first_plan, self.problem, self.table, context=context, equal=equal
        )

    def ensure_plan(self) -> None:
        """Offer a plan of the space that is found quickly, if there is none yet."""
        ledger = self.ledger
        if ledger.plans or ledger.looked_at_once or not ledger.open():
            return
        found = self._first()
        # A search that runs out of time is made again after it.
        ledger.looked_at_once = True
        if found is not None:
            self.offer(found.decision)

    def check_time(self) -> None:
        """Raise Stopped when time is up, KeyboardInterrupt if the user interrupts."""
        self.ledger.check_time()

    def offer(self, decision: Decision) -> int | None:
        """Price and record a decision; return its objective, None if it is no plan."""
        value = self.pricer.value(decision)
        if value is not None and value <= self.cutoff:
            self._take(decision, value)
        return value

    def _take(self, decision: Decision, value: int) -> None:
        """Record a plan, if it is among the best."""
        ledger = self.ledger
        found = ledger.offered(decision, value)
        if not ledger.find(found):
            return
        ranked = ledger.ranked()
        # Only the best are kept, as a heuristic may offer very many.
        ledger.plans = {kept.decision.shape: kept for kept in ranked}
        self.cutoff = ledger.cutoff
        on_progress = self.request.params.on_progress
        if ranked[0] is found and on_progress is not None:
            on_progress(ledger.progress(self.request.deadline.elapsed_s()))


def solve_by(
    search: Callable[[Finds], None],
    request: Request,
    *,
    solver: str,
    context: bool = True,
    equal: bool = False,
) -> Result:
    """Run a heuristic, then bound what it may have missed.

    Parameters
    ----------
    search
        Searches plans until it has nothing left to try, or ``finds`` raises Stopped.
    solver
        Its name; its record has the principles that its plans keep.
    context, equal
        Whether its plans may have cp > 1, and whether their stages hold equally many
        units: a plan that is found after the time is up has to be one of its space.

    Raises
    ------
    InputError
        If the request relaxes a principle: the space is the heuristic's own.
    """
    finds = Finds(request, solver, context=context, equal=equal)
    deadline = request.deadline
    ended = interrupted = False
    # When the time is up or the user interrupts, the best plan so far is the answer.
    try:
        with suppress(Stopped):
            run_until(deadline, lambda: search(finds))
            ended = True
            run_until(deadline, finds.ledger.survey)
    except KeyboardInterrupt:
        interrupted = True
    if deadline.is_over():
        finds.ensure_plan()
    return replace(finds.ledger.result(ended=ended), interrupted=interrupted)
