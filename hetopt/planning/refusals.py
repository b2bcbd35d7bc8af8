"""Refuse in one line, before a search, what cannot be asked for together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.results.per_schedule import BEST
from hetopt.solvers.refusals import ensure_can, ensure_races
from hetopt.solvers.registry import solver

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.training.principles import Principles


def ensure_searchable(
    name: str,
    objective: str | None,
    principles: Principles,
    *,
    journal: bool = False,
    field: str = "--solver",
) -> None:
    """Raise InputError, before a search, if a solver cannot do what the user asks."""
    solver(name, field)
    ensure_can(name, principles)
    if objective == "simulated":
        from hetopt.solvers.simulated.solver import ensure_can_simulate

        ensure_can_simulate(name, principles, journal=journal)
    elif objective not in (None, "closed", "cost"):
        msg = f"is {objective!r}, expected 'closed', 'simulated' or 'cost'"
        raise InputError(msg, field="objective")


def ensure_spends(name: str, flag: str, *, top: int, field: str = "top") -> None:
    """Raise InputError if a search cannot take prices into account.

    Parameters
    ----------
    flag
        Option that asks for it.
    field
        Option that asks for the ``top`` best plans.
    """
    ensure_races(name, flag)
    if top > 1:
        msg = f"cannot be combined with {flag}: leave it out"
        raise InputError(msg, field=field)


def ensure_best(name: str, given: Mapping[str, bool]) -> None:
    """Raise InputError if an option excludes a search for the best schedule.

    Parameters
    ----------
    name
        Name of the solver.
    given
        Name of each option that is for a single schedule -> whether it is given.
    """
    for field, one in given.items():
        if one:
            msg = (
                f"cannot be combined with the schedule {BEST}: leave it out, or name "
                "one schedule"
            )
            raise InputError(msg, field=field)
    if name == "uniap":
        msg = f"is {BEST}, but solver {name} plans only gpipe: give that schedule"
        raise InputError(msg, field="schedule")
