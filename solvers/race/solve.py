"""The ``solve`` functions of the solvers that race over (p, q)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hetopt.errors import InputError
from hetopt.solvers.race.race import race
from hetopt.solvers.registry import ensure_can, ensure_plans

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.cost.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.result import Result
    from hetopt.solvers.params import RaceParams


class Solve(Protocol):
    """Finds a plan of least closed form and proves that there is no better one."""

    def __call__(
        self,
        problem: Problem,
        table: CostTable,
        params: RaceParams,
        *,
        time_limit_s: float | None,
        seed: int,
        cutoff: float | None = None,
    ) -> Result:
        """Solve a problem.

        Parameters
        ----------
        time_limit_s
            Wall-clock limit; the best plan so far is returned with its true gap.
        cutoff
            Seconds; plans above it are of no interest.

        Raises
        ------
        InputError
            If the solver is not installed or has no licence, or if a principle is
            relaxed, or a schedule asked for, for which it has no program.
        """
        ...


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
        ``module:attribute`` of what makes the engine in every worker.
    ensure_available
        Raises InputError, naming what is missing, if the solver cannot be used.
    quick
        Whether workers often do not pay.

    Raises
    ------
    InputError
        The engine is of the program itself, which workers do not import.
    """
    if engine.startswith("__main__:"):
        msg = "workers do not import the program: move the engine to a module"
        raise InputError(msg, field=engine)

    def solve(
        problem: Problem,
        table: CostTable,
        params: RaceParams,
        *,
        time_limit_s: float | None,
        seed: int,
        cutoff: float | None = None,
    ) -> Result:
        """Find a plan of least closed form; see ``Solve``."""
        ensure_can(solver, params.principles)
        ensure_plans(solver, problem.training.schedule)
        if ensure_available is not None:
            ensure_available()
        return race(
            problem,
            table,
            solver=solver,
            engine=engine,
            jobs=params.jobs,
            top=params.top,
            time_limit_s=time_limit_s,
            seed=seed,
            cutoff=cutoff,
            on_progress=params.on_progress,
            principles=params.principles,
            journal=params.journal,
            executor=params.executor,
            quick=quick,
        )

    return solve
