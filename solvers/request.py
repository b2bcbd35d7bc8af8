"""The request to a solver: the only argument of every ``solve``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from hetopt.base.deadline import Deadline
from hetopt.solvers.params import RaceParams

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result


class Keeps(Protocol):
    """Keeps what is known of (p, q): see ``hetopt.solvers.search.journal``."""

    def resume(self, ledger: Any, request: Request) -> None:
        """Put what is known of the programs of a request into their ledger."""
        ...

    def found(self, ledger: Any, found: Any) -> None:
        """Keep a plan."""
        ...

    def found_since(self, before: Any, ledger: Any) -> None:
        """Keep the plans that a ledger had not before, by shape, if it has several."""
        ...

    def settled(self, ledger: Any, program: Any) -> None:
        """Keep how a program was settled."""
        ...

    def infeasible(self, ledger: Any, programs: Any) -> None:
        """Keep which programs have no plan."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A problem to solve, and the limits of the search; see ``RaceParams``.

    Attributes
    ----------
    table
        The latency table of the problem.
    params
        The solver's own parameters, or ``RaceParams`` to use the solver's defaults.
    deadline
        When it is over, the best plan so far is returned, with its true gap.
    seed
        Seed of all random choices, at least 0.
    cutoff_s
        Plans with a larger objective are of no interest; None for no cutoff. If the
        cost is minimised, in seconds times the price an hour.
    memory
        What solvers keep to go on from where a search of the same problem stopped, by
        name; None if it is not searched again. Cutoffs of later searches are no larger.
    journal
        The journal that ``params`` names, once a tree search has opened it.
    """

    problem: Problem
    table: CostTable
    params: RaceParams = field(default_factory=RaceParams)
    deadline: Deadline = field(default_factory=Deadline)
    seed: int = 0
    cutoff_s: float | None = None
    memory: dict[str, Any] | None = field(default=None, compare=False)
    journal: Keeps | None = field(default=None, compare=False)

    def without_plan(self, *, interrupted: bool) -> str:
        """Say why there is no plan where a bound leaves some possible."""
        if interrupted or self.deadline.is_over():
            return "stopped before a plan was found"
        return "no plan was found, but not all plans were searched"


class Solve(Protocol):
    """Finds a good plan, and a lower bound on all plans if it can."""

    def __call__(self, request: Request) -> Result:
        """Solve a problem.

        Raises
        ------
        InputError
            If the solver is not installed or has no licence, or if it does not support
            the schedule or a relaxed principle of the request.
        """
        ...
