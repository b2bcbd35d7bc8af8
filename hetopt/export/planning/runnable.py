"""The plans that a launcher can run, for a search that branches over them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.export.planning.limits import broken, sharing, split, why_not
from hetopt.export.registry import limits_of
from hetopt.solvers.search.branchings.runnable import Launchable, SideBySide

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem
    from hetopt.solvers.search.branchings.schedules import ScheduleVariant


def launchable(name: str, problem: Problem) -> Launchable:
    """Return which plans a launcher can run; InputError if it has no limits."""
    limits = limits_of(name)
    together = limits.together
    return Launchable(
        name=name,
        broken=partial(broken, limits),
        split=partial(split, limits),
        passed_over=partial(_passed_over, name, problem),
        together=None
        if together is None
        else SideBySide(
            values=together.values(problem), sharing=partial(sharing, limits)
        ),
    )


def _passed_over(name: str, problem: Problem, variant: ScheduleVariant) -> str | None:
    """Return why a launcher does not run a schedule; None: it does."""
    limits = limits_of(name)
    if variant.schedule not in limits.schedules:
        return f"{name} does not run it"
    try:
        return why_not(limits, variant.of(problem))
    except InputError:
        # The problem cannot have this schedule, which others say.
        return None
