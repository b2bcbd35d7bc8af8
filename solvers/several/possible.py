"""Check that a search for several pipelines is possible, before it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.plans.plan import MOST_PIPELINES
from hetopt.problem.division import pins_fault
from hetopt.solvers.refusals import ensure_races

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.problem import Problem


def ensure_several(
    problem: Problem,
    name: str,
    pipelines: int,
    given: Mapping[str, bool],
    *,
    field: str = "--pipelines",
) -> None:
    """Raise InputError if a search for several pipelines is not possible.

    Parameters
    ----------
    name
        Name of the solver.
    given
        Whether each option that needs one pipeline is given, by its name for users.
    """
    if not isinstance(pipelines, int) or not 1 <= pipelines <= MOST_PIPELINES:
        msg = f"is {pipelines!r}, expected 1 to {MOST_PIPELINES}"
        raise InputError(msg, field=field)
    for other, one in given.items():
        if one:
            msg = "applies to plans of one pipeline only: leave it out, or ask for one"
            raise InputError(msg, field=other)
    ensure_races(name, field)
    chunks = problem.training.chunks
    if chunks > 1:
        msg = (
            f"needs one chunk per stage, not the {chunks} of "
            f"{problem.training.schedule}: leave it out, or use another schedule"
        )
        raise InputError(msg, field=field)
    pin = pins_fault(problem.pins)
    if pin is not None:
        msg = f"applies to one pipeline only, but {field} asks for more: leave it out"
        raise InputError(msg, field=f"pin.{pin}")
