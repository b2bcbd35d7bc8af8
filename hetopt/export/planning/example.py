"""The example problem within the limits of a launcher."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.export.planning.limits import permits
from hetopt.export.registry import launcher, limits_of
from hetopt.plans.strategy import Strategy
from hetopt.problem.example import CLUSTERS, EXAMPLE, ExampleText, example
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import RECOMPUTE, RESHARDING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.export.launcher import Limits
    from hetopt.problem.training.choices import ScheduleName

#: The example's schedule, where a launcher has it, and its ZeRO stage, or else another.
_SCHEDULE: ScheduleName = "virtual-1f1b"
_ZEROS = (1, 2, 0, 3)
#: Degrees of stages that must all have the same: a replica on each device of a node.
_STRATEGY = Strategy(dp=8, cp=1, tp=1)
#: Characters of a field's name and value before its comment.
_COLUMN = 30


def example_for(name: str) -> str:
    """Return an example whose plans a launcher runs as they are.

    Raises
    ------
    InputError
        There is no launcher of this name that has limits.
    """
    limits = limits_of(name)
    title = launcher(name).title
    pinned = [f"{line}\n" for line in _pinned(limits)]
    why = (
        f"# So that {title} runs every plan as it is. Without these pins,\n"
        f"# `hetopt plan --for {name}` finds the best of all plans that it runs.\n"
    )
    text = ExampleText(**_training(limits, title))
    return example(
        replace(text, pin="".join((why, "pin:\n", *pinned))) if pinned else text
    )


def _training(limits: Limits, title: str) -> dict[str, str]:
    """Return the fields of ``training`` that the limits change, with comments."""
    found = {}
    zero = _zero(limits)
    if zero != _ZEROS[0]:
        found["zero"] = _line("zero", str(zero), f"one that {title} has")
    if _SCHEDULE not in limits.schedules:
        first, *others = limits.schedules
        also = f"{title} also runs {', '.join(others)}" if others else "its only one"
        found["schedule"] = _line("schedule", first, also)
    together = limits.recompute[0]
    if "recompute" in limits.shared:
        said = f"{title} does the same on all stages"
        found["recompute"] = _line("recompute", "none", said)
    elif set(together) != set(RECOMPUTE):
        value = together[0] if len(together) == 1 else f"[{', '.join(together)}]"
        found["recompute"] = _line("recompute", value, f"{title} mixes no others")
    return found


def _zero(limits: Limits) -> int:
    """Return a ZeRO stage with which stages may have the pinned degrees."""
    problem = read_problem_text(EXAMPLE)
    for zero in _ZEROS:
        sharded = replace(problem, training=replace(problem.training, zero=zero))
        if zero in limits.zero and permits(limits, _STRATEGY, sharded):
            return zero
    return limits.zero[0]


def _pinned(limits: Limits) -> Iterator[str]:
    """Yield the lines of the section ``pin``; none if nothing need be pinned."""
    if set(limits.resharding) != set(RESHARDING):
        ways = ", ".join(limits.resharding)
        yield f"  resharding: [{ways}]" if "," in ways else f"  resharding: {ways}"
    degrees = {
        degree: getattr(_STRATEGY, degree)
        for degree in ("dp", "cp", "tp")
        if degree in limits.shared or (degree == "cp" and not limits.context_parallel)
    }
    if degrees:
        inside = ", ".join(f"{degree}: {value}" for degree, value in degrees.items())
        yield "  clusters:"
        for cluster in CLUSTERS:
            yield f"    {cluster}: {{{inside}}}"


def _line(field: str, value: str, comment: str) -> str:
    """Return a value with a comment; all comments of ``training`` are aligned."""
    return f"{value:<{_COLUMN - len(field)}}# {comment}"
