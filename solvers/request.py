"""What a solver is asked: the one argument of every ``solve``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from hetopt.base.deadline import Deadline
from hetopt.solvers.params import RaceParams

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A problem to solve, and how far to go; ``RaceParams`` shows an example.

    Attributes
    ----------
    table
        The problem's own.
    params
        Those of the solver, or ``RaceParams`` for its defaults of all others.
    deadline
        The best plan until then is returned, with its true gap.
    seed
        Of everything that is drawn at random, at least 0.
    cutoff_s
        Plans of a longer iteration time are of no interest; None for any.
    """

    problem: Problem
    table: CostTable
    params: RaceParams = field(default_factory=RaceParams)
    deadline: Deadline = field(default_factory=Deadline)
    seed: int = 0
    cutoff_s: float | None = None


class Solve(Protocol):
    """Finds a good plan, and says what it knows of better ones."""

    def __call__(self, request: Request) -> Result:
        """Solve a problem.

        Raises
        ------
        InputError
            If the solver is not installed or has no licence, or if a principle is
            relaxed, or a schedule asked for, for which it has no program.
        """
        ...
