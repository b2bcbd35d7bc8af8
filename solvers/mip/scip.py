"""SCIP as Pyomo drives it, with an eye on when to stop and on what it finds."""

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
#: When to ask whether to stop.
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
        What a callback raised; SCIP must not be unwound by it.
    """

    def __init__(self, *, found: Callable[[], None], stop: Callable[[], bool]) -> None:
        super().__init__()
        self.failure: BaseException | None = None
        self._found = found
        self._stop = stop

    @property
    def status(self) -> str:
        """How SCIP ended, in its own words."""
        return str(self._solver_model.getStatus())

    def pause(self) -> bool:
        """Return whether SCIP is to stop."""
        return self._guarded(self._stop)

    def improve(self) -> bool:
        """Load SCIP's best solution and tell; return whether SCIP is to stop."""

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
        """Leave out what has no value, which Pyomo's own would stumble over."""
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
    """SCIP's events, passed on."""

    def __init__(self, watched: WatchedScip) -> None:
        self._watched = watched

    def eventinit(self) -> None:
        """Ask for the events that matter."""
        for event in (_FOUND, *_PAUSES):
            self.model.catchEvent(event, self)

    def eventexit(self) -> None:
        """Ask for none."""
        for event in (_FOUND, *_PAUSES):
            self.model.dropEvent(event, self)

    def eventexec(self, event: Any) -> None:
        """Handle one event."""
        found = event.getType() == _FOUND
        if self._watched.improve() if found else self._watched.pause():
            self.model.interruptSolve()
