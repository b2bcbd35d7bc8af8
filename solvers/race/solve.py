"""The ``solve`` functions of the solvers that race over (p, q)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.solvers.race.race import race
from hetopt.solvers.refusals import ensure_can, ensure_keeps, ensure_packs, ensure_plans

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.results.result import Result
    from hetopt.solvers.request import Request, Solve


def racing(
    solver: str,
    engine: str,
    *,
    ensure_available: Callable[[], None] | None = None,
    quick: bool = False,
) -> Solve:
    """Make the ``solve`` of a solver.

    Parameters
    ----------
    solver
        Its name.
    engine
        ``module:attribute`` of the callable that makes the engine in every worker.
    ensure_available
        Raises InputError, naming what is missing, if the solver cannot be used.
    quick
        Whether the engine is usually so quick that starting workers does not pay.

    Raises
    ------
    InputError
        The engine is in ``__main__``, which workers do not import.
    """
    if engine.startswith("__main__:"):
        msg = "workers do not import the main program: move the engine to a module"
        raise InputError(msg, field=engine)

    def solve(request: Request) -> Result:
        """Find a plan of least closed form; see ``Solve``."""
        ensure_can(solver, request.params.principles)
        ensure_plans(solver, request.problem.training.schedule)
        ensure_keeps(request.problem.training.schedule, request.params.principles)
        ensure_packs(request.problem, request.table, request.params.principles)
        if ensure_available is not None:
            ensure_available()
        return race(request, solver=solver, engine=engine, quick=quick)

    return solve
