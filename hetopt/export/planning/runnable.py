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

    def passed_over(variant: ScheduleVariant) -> str | None:
        if variant.schedule in limits.schedules:
            return None
        return f"{name} does not run it"

    return Launchable(
        name=name,
        permitted=partial(permitted, limits),
        split=partial(branches, limits),
        passed_over=passed_over,
    )
