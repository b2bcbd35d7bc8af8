"""Pyomo's interface to SCIP, with callbacks for stopping and for better solutions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyomo.contrib.solver.solvers.scip.scip_direct import ScipDirect
from pyscipopt import (  # pyright: ignore[reportMissingImports]
    SCIP_EVENTTYPE,
    Eventhdlr,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_FOUND = SCIP_EVENTTYPE.BESTSOLFOUND
#: Events at which to ask whether to stop.
_PAUSES = (
    SCIP_EVENTTYPE.PRESOLVEROUND,
    SCIP_EVENTTYPE.FIRSTLPSOLVED,
    SCIP_EVENTTYPE.LPSOLVED,
    SCIP_EVENTTYPE.NODESOLVED,
)


class WatchedScip(ScipDirect):  # type: ignore[misc]
    """Pyomo's interface to SCIP with callbacks.

    Attributes
    ----------
    failure
        The exception of a callback; it must not unwind SCIP's frames.
    """

    def __init__(self, *, found: Callable[[], None], stop: Callable[[], bool]) -> None:
        super().__init__()
        self.failure: BaseException | None = None
        self._found = found
        self._stop = stop

    @property
    def status(self) -> str:
        """SCIP's own word for how it ended."""
        return str(self._solver_model.getStatus())

    def pause(self) -> bool:
        """Return whether SCIP has to stop."""
        return self._guarded(self._stop)

    def improve(self) -> bool:
        """Load SCIP's best solution and report it; return whether SCIP has to stop."""

        def tell() -> bool:
            scip = self._solver_model
            solution = scip.getBestSol()
            for variable, column in self._pyomo_var_to_solver_var_map.items():
                value = scip.getSolVal(solution, column)
                variable.set_value(value, skip_validation=True)
            self._found()
            return False

        return self._guarded(tell)

    def _guarded(self, act: Callable[[], bool]) -> bool:
        if self.failure is not None:
            return True
        try:
            return act()
        except BaseException as error:
            self.failure = error
            return True

    def _mipstart(self) -> None:
        """Start from whole variables with values; Pyomo's own fails without values."""
        scip = self._solver_model
        solution = scip.createPartialSol()
        for variable, column in self._pyomo_var_to_solver_var_map.items():
            if variable.is_integer() and variable.value is not None:
                scip.setSolVal(solution, column, variable.value)
        scip.addSol(solution)

    def _create_solver_model(self, model: Any, config: Any) -> Any:
        made = super()._create_solver_model(model, config)
        self._solver_model.includeEventhdlr(
            _Events(self), "watch", "stops SCIP when told to, and tells what it finds"
        )
        return made


class _Events(Eventhdlr):  # type: ignore[misc]
    """Passes SCIP's events on."""

    def __init__(self, watched: WatchedScip) -> None:
        self._watched = watched

    def eventinit(self) -> None:
        """Subscribe to the events."""
        for event in (_FOUND, *_PAUSES):
            self.model.catchEvent(event, self)

    def eventexit(self) -> None:
        """Unsubscribe from the events."""
        for event in (_FOUND, *_PAUSES):
            self.model.dropEvent(event, self)

    def eventexec(self, event: Any) -> None:
        """Handle one event."""
        found = event.getType() == _FOUND
        if self._watched.improve() if found else self._watched.pause():
            self.model.interruptSolve()
