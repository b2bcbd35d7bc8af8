"""What the options of ``hetopt plan`` ask for, checked before the search."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from hetopt.cli.inputs import load_problem, principles_of, schedule_of, workers
from hetopt.errors import InputError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from hetopt.planning.asked import Search

#: Options by the first word of what errors of a search name, where these differ.
_FLAGS = {
    "certified": "certificate",
    "launcher": "for",
    "measure": "objective",
    "time": "objective",
    "time_limit_s": "time-limit",
}
#: What errors of a search name beside fields of ``Search``.
_OTHERS = ("objective", "pareto", "relax")


def search_of(options: argparse.Namespace) -> Search:
    """Return what is asked for.

    Raises
    ------
    InputError
        Options do not fit each other or the problem; it names the option.
    """
    from hetopt.planning.asked import Search

    _fit(options)
    schedule = schedule_of(options)
    problem = load_problem(
        options.problem, schedule, options.chunks, lengths=True, any_schedule=True
    )
    costs = options.objective == "cost"
    here = options.executor == "process"
    with naming(options):
        return Search(
            problem=problem,
            time="closed" if costs else options.objective,
            measure="front" if options.pareto else "cost" if costs else "time",
            principles=principles_of(options.relax),
            certified=options.certificate is not None,
            time_limit_s=options.time_limit,
            jobs=workers(options.jobs) if here else options.jobs,
            name=options.problem,
            schedule=schedule,
            **{name: getattr(options, name) for name in _SAME},
        )


#: Options whose values are those of fields with their names.
_SAME = (
    *("solver", "budget", "min_tokens_per_s", "chunks", "pipelines", "launcher", "top"),
    *("table", "stability", "executor", "journal", "seed", "exploration", "iterations"),
    "cost",
)


@contextmanager
def naming(options: argparse.Namespace) -> Iterator[None]:
    """Let errors of a search name options instead of fields."""
    try:
        yield
    except InputError as error:
        raise _named(error, options) from None


def _named(error: InputError, options: argparse.Namespace) -> InputError:
    from hetopt.planning.asked import Search

    first, space, rest = (error.field or "").partition(" ")
    if first not in (*Search.__dataclass_fields__, *_OTHERS):
        return error
    if first == "launcher" and options.launcher is None:
        # It is the problem's.
        return error
    flag = _FLAGS.get(first, first).replace("_", "-")
    return InputError(error.message, field=f"--{flag}{space}{rest}")


def _fit(options: argparse.Namespace) -> None:
    """Raise InputError if an option makes no sense with the others."""
    if options.pareto and options.objective == "cost":
        msg = "is one point of what --pareto finds: leave one of both out"
        raise InputError(msg, field="--objective cost")
    if options.svg is not None and not options.pareto:
        msg = "draws the front: use it with --pareto, or see `hetopt simulate --svg`"
        raise InputError(msg, field="--svg")
