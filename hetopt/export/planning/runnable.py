"""The plans that a launcher can run, for a search that branches over them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hetopt.export.planning.limits import branches, permitted
from hetopt.export.registry import limits_of
from hetopt.solvers.search.over import Launchable

if TYPE_CHECKING:
    from hetopt.solvers.search.branchings.schedules import ScheduleVariant


def launchable(name: str) -> Launchable:
    """Return which plans a launcher can run; InputError if it has no limits."""
    limits = limits_of(name)
    return Launchable(
        name=name,
        permitted=partial(permitted, limits),
        split=partial(branches, limits),
        passed_over=partial(_passed_over, name),
    )


def _passed_over(name: str, variant: ScheduleVariant) -> str | None:
    """Return why a launcher does not run a schedule; None: it does."""
    runs = variant.schedule in limits_of(name).schedules
    return None if runs else f"{name} does not run it"
