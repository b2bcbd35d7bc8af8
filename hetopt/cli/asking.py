"""What the options of a command ask for, checked before the search."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hetopt.cli.flag import flags_in
from hetopt.cli.inputs import load_problem, schedule_of
from hetopt.errors import InputError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from hetopt.planning.asked import Search


def search_of(options: argparse.Namespace, **own: Any) -> Search:
    """Return the search that a command's options ask for.

    Parameters
    ----------
    own
        Fields that do not have the values of their options, or have no option.

    Raises
    ------
    InputError
        Options do not fit each other or the problem; it names the option.
    """
    from hetopt.planning.asked import Search

    asked: dict[str, Any] = {}
    for flag in flags_in(options.takes):
        if not {*own}.issuperset(flag.fills):
            asked |= flag.asked(options)
    with naming(options):
        return Search(**{**asked, **own})


def plan_asked(options: argparse.Namespace) -> Search:
    """Return what the options of ``hetopt plan`` ask for; InputError as ``search_of``.

    Workers elsewhere than here may be as many as are asked for.
    """
    if options.pareto and options.objective == "cost":
        msg = "is one point of what --pareto finds: leave one of both out"
        raise InputError(msg, field="--objective cost")
    if options.svg is not None and not options.pareto:
        msg = "draws the front: use it with --pareto, or see `hetopt simulate --svg`"
        raise InputError(msg, field="--svg")
    schedule = schedule_of(options)
    problem = load_problem(
        options.problem, schedule, options.chunks, lengths=True, any_schedule=True
    )
    own = {} if options.executor == "process" else {"jobs": options.jobs}
    return search_of(
        options, problem=problem, name=options.problem, schedule=schedule, **own
    )


@contextmanager
def naming(options: argparse.Namespace) -> Iterator[None]:
    """Let errors of a search name options instead of fields."""
    try:
        yield
    except InputError as error:
        raise _named(error, options) from None


def _named(error: InputError, options: argparse.Namespace) -> InputError:
    first, space, rest = (error.field or "").partition(" ")
    if first in ("launcher", "schedule") and vars(options).get(first) is None:
        # It is the problem's.
        field = first if first == "launcher" else f"training.{first}"
        return InputError(error.message, field=f"{field}{space}{rest}")
    for flag in flags_in(options.takes):
        if first in (flag.dest, *flag.fills) and flag.name.startswith("--"):
            return InputError(error.message, field=f"{flag.name}{space}{rest}")
    return error
