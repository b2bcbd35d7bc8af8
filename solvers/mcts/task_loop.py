"""The parts that both tree searches share: a pool's tasks, cheap bounds, the result."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetopt.base.deadline import Stopped
from hetopt.base.run_until import run_until
from hetopt.solvers.params import MctsParams
from hetopt.solvers.pools.opening import open_pool
from hetopt.solvers.race.task_loop import TaskLoop
from hetopt.solvers.unproven.ledger import UnprovenLedger

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.results.result import Result
    from hetopt.solvers.race.messages import Found
    from hetopt.solvers.request import Request


class SearchLoop(TaskLoop):
    """Runs the tasks of a tree search on a pool."""

    ledger: UnprovenLedger

    def find(self, found: Found) -> None:
        """Record a plan as its canonical copy."""
        super().find(self.ledger.canonical(found))


class TreeSearch:
    """A request for tree search, completed by defaults.

    Parameters
    ----------
    exploration, iterations
        The solver's defaults for what the request does not set; the number of
        iterations has no default if there is a time limit.

    Raises
    ------
    InputError
        If a principle is relaxed, or the schedule leaves warm-up counts free.
    """

    def __init__(
        self, request: Request, solver: str, exploration: float, iterations: int
    ) -> None:
        self.request, params = request, request.params
        self.ledger = UnprovenLedger(request, solver)
        own = params if isinstance(params, MctsParams) else MctsParams()
        self.exploration = exploration
        if own.exploration is not None:
            self.exploration = own.exploration
        self.iterations = own.iterations
        if own.iterations is None and request.deadline.limit_s is None:
            self.iterations = iterations

    def run(
        self,
        make: Callable[..., Callable[[Any], Any]],
        payload: Any,
        run: Callable[[SearchLoop], None],
    ) -> Result:
        """Search until it ends, time runs out or the user interrupts.

        Parameters
        ----------
        make, payload
            As for ``Pool``: what the workers run.
        run
            Called with the loop, to give it its tasks.
        """
        ledger, deadline = self.ledger, self.request.deadline
        ended = interrupted = False
        try:
            if ledger.open():
                with closing(open_pool(self.request.params, make, payload)) as pool:
                    loop = SearchLoop(ledger, pool, self.request)
                    with suppress(Stopped):
                        run_until(deadline, ledger.glance)
                        run(loop)
                        ended = True
        except KeyboardInterrupt:
            interrupted = True
        return self.result(ended=ended, interrupted=interrupted)

    def result(self, *, ended: bool, interrupted: bool = False) -> Result:
        """Return what is known; at least a plan of one strategy if time ran out."""
        if self.request.deadline.limit_s is not None and not ended:
            self.ledger.ensure_plan()
        return replace(self.ledger.result(ended=ended), interrupted=interrupted)
