"""A problem as a launcher can run it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.errors import InputError

if TYPE_CHECKING:
    from hetopt.export.launcher import Limits
    from hetopt.problem.problem import Problem
    from hetopt.problem.training import ScheduleName

_DIRECT = frozenset({"p2p"})


def fitted(limits: Limits, problem: Problem, asked: ScheduleName | None) -> Problem:
    """Return a problem with a schedule and with resharding that the launcher has.

    Parameters
    ----------
    asked
        The schedule that the user insists on.

    Raises
    ------
    InputError
        The user insists on another schedule, or the launcher cannot run any plan of
        this problem.
    """
    if asked is not None and asked not in limits.schedules:
        msg = f"the launcher runs {', '.join(limits.schedules)}, not {asked}"
        raise InputError(msg, field="--schedule")
    _ensure_runs(limits, problem)
    training, pins = problem.training, problem.pins
    if training.schedule not in limits.schedules:
        training = replace(training, schedule=limits.schedules[0])
    # Every launcher with limits sends from device to device, each its own part.
    ways = replace(
        pins.resharding, allowed=_DIRECT & (pins.resharding.allowed or _DIRECT)
    )
    return replace(problem, training=training, pins=replace(pins, resharding=ways))


def _ensure_runs(limits: Limits, problem: Problem) -> None:
    """Raise InputError if the launcher cannot run any plan of a problem."""
    if problem.training.zero not in limits.zero:
        known = " or ".join(map(str, limits.zero))
        msg = f"is {problem.training.zero}, the launcher knows {known}"
        raise InputError(msg, field="training.zero")
    if problem.model.granularity != "layer":
        msg = "is 'block', the launcher cuts between layers: set 'layer'"
        raise InputError(msg, field="model.granularity")
    if not problem.model.is_decoder_only:
        msg = "the launcher trains decoder-only models with causal attention"
        raise InputError(msg, field="model")
    for loss in limits.losses(problem) if limits.losses else ():
        raise InputError(f"the launcher cannot do: {loss.what}", field="--for")
