"""What the options of ``hetopt plan`` ask for, checked before the search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cli.inputs import load_problem, principles_of, schedule_of
from hetopt.errors import InputError
from hetopt.export.registry import limits_of
from hetopt.problem.training.choices import ANY
from hetopt.solvers.refusals import ensure_races, ensure_samples
from hetopt.solvers.registry import solver

if TYPE_CHECKING:
    import argparse

    from hetopt.planning.asked import Search, Time
    from hetopt.solvers.search.branchings.fleets import Measure

#: Options by the field of ``Search`` that they set, where these differ.
_FLAGS = {
    "certified": "--certificate",
    "launcher": "--for",
    "measure": "--objective",
    "time": "--objective",
}


def search_of(options: argparse.Namespace) -> Search:
    """Return what is asked for.

    Raises
    ------
    InputError
        Options do not fit each other or the problem; it names the option.
    """
    from hetopt.planning.asked import Search
    from hetopt.solvers.search.branchings.schedules import chunks_to_try

    solver(options.solver)
    _fit(options)
    schedule = schedule_of(options)
    problem = load_problem(
        options.problem, schedule, options.chunks, lengths=True, any_schedule=True
    )
    tried = options.chunks if problem.training.any_schedule else None
    measure: Measure = "front" if options.pareto else "time"
    if options.objective == "cost":
        measure = "cost"
    time: Time | None = options.objective
    found = Search(
        problem=problem,
        solver=options.solver,
        time="closed" if measure == "cost" else time,
        measure=measure,
        budget=options.budget,
        min_tokens_per_s=options.min_tokens_per_s,
        chunks=chunks_to_try(tried, field="--chunks"),
        pipelines=options.pipelines,
        launcher=options.launcher,
        principles=principles_of(options.relax),
        top=options.top,
        own_table=options.table is not None,
        stability=options.stability,
        certified=options.certificate is not None,
    )
    ensure(found, options)
    return found


def ensure(asked: Search, options: argparse.Namespace) -> None:
    """Raise InputError, which names options, for what cannot be searched."""
    schedule = schedule_of(options)
    try:
        asked.ensure()
        name = asked.limiting
        runs = () if name is None else limits_of(name).schedules
        if runs and schedule not in (None, ANY, *runs):
            msg = f"the launcher runs {', '.join(runs)}, not {schedule}"
            raise InputError(msg, field="schedule")
    except InputError as error:
        raise named(error, options) from None


def named(error: InputError, options: argparse.Namespace) -> InputError:
    """Return an error whose field is the option, if it is one of a search."""
    from hetopt.planning.asked import Search

    field = error.field or ""
    if field not in Search.__dataclass_fields__ and field not in _OTHERS:
        return error
    if field == "launcher" and options.launcher is None:
        # It is the problem's.
        return error
    flag = _FLAGS.get(field, f"--{field.replace('_', '-')}")
    return InputError(error.message, field=flag)


#: Fields of a search's errors that are no fields of ``Search``.
_OTHERS = ("relax", "schedule", "table")


def _fit(options: argparse.Namespace) -> None:
    """Raise InputError if an option is not for the solver or for the others."""
    for flag, given in (
        ("--certificate", options.certificate is not None),
        ("--journal", options.journal is not None),
        ("--executor", options.executor != "process"),
        ("--stability", options.stability),
        ("--pareto", options.pareto),
        ("--objective cost", options.objective == "cost"),
    ):
        if given:
            ensure_races(options.solver, flag)
    for flag, given in (
        ("--iterations", options.iterations is not None),
        ("--exploration", options.exploration is not None),
    ):
        if given:
            ensure_samples(options.solver, flag)
    if options.cost is not None and options.solver != "dfs":
        msg = f"solver {options.solver} minimises the closed form: this is for dfs"
        raise InputError(msg, field="--cost")
    if options.pareto and options.objective == "cost":
        msg = "is one point of what --pareto finds: leave one of both out"
        raise InputError(msg, field="--objective cost")
    if options.svg is not None and not options.pareto:
        msg = "draws the front: use it with --pareto, or see `hetopt simulate --svg`"
        raise InputError(msg, field="--svg")
