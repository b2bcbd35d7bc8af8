"""Inputs of several commands: schedules, problems, tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cli.flags import BLOCKING
from hetopt.errors import InputError
from hetopt.problem.training.choices import ANY, INTERLEAVED

if TYPE_CHECKING:
    import argparse

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import AskedSchedule


def only_one(counts: tuple[int, ...] | None) -> int | None:
    """Return the only number of ``--chunks``; None for the problem's.

    Raises
    ------
    InputError
        Several numbers are given.
    """
    if counts is not None and len(counts) > 1:
        msg = f"has {len(counts)} numbers: name one, or --schedule {ANY} to try all"
        raise InputError(msg, field="--chunks")
    return None if counts is None else counts[0]


def schedule_of(options: argparse.Namespace) -> AskedSchedule | None:
    """Return the schedule that options name, or ``auto``; None for the problem's.

    Raises
    ------
    InputError
        ``--blocking`` is given with another schedule than 1f1b-blocking.
    """
    asked: AskedSchedule | None = options.schedule
    if options.blocking is None:
        return asked
    default = BLOCKING[max(BLOCKING)]
    if asked != default:
        msg = f"goes with --schedule {default} alone: leave it out, or name that"
        raise InputError(msg, field="--blocking")
    return BLOCKING[options.blocking]


def load_problem(
    name: str,
    schedule: AskedSchedule | None = None,
    chunks: tuple[int, ...] | None = None,
    *,
    lengths: bool = False,
    divided: bool = True,
    any_schedule: bool = False,
) -> Problem:
    """Read a problem by path, or by the name of one that ships with hetopt.

    Parameters
    ----------
    schedule, chunks
        Values of ``--schedule`` and ``--chunks``, which replace those in the file.
    lengths
        Whether sequences may have several lengths; else they are refused.
    divided
        Whether there has to be one schedule, which can divide the model; False if the
        command uses other schedules instead.
    any_schedule
        Whether any schedule may be asked for; ``chunks`` is then not used.

    Raises
    ------
    InputError
        The file is no problem; its schedule, or the one given instead, does not fit its
        model and pins; or sequences have several lengths, which is not allowed here.
    """
    problem = _read(name, lengths=lengths)
    own = problem.training
    if schedule == ANY or (schedule is None and own.any_schedule):
        if divided and not any_schedule:
            msg = (
                f"is {ANY}, but this command takes one: name it in the file, or by "
                "--schedule NAME where there is the option"
            )
            raise InputError(msg, file=name, field="training.schedule")
        return problem.under_any()
    if schedule == INTERLEAVED != own.schedule and chunks is None:
        msg = f"is missing: --schedule {schedule} has 2 or more chunks a stage"
        raise InputError(msg, field="--chunks")
    try:
        if schedule is not None or chunks is not None:
            problem = problem.under(schedule or own.schedule, only_one(chunks))
        if divided:
            _ensure_divides(problem)
    except InputError as error:
        raise placed(error, name, schedule, chunks) from None
    return problem


def load_problem_of(
    name: str, plan: Plan | None, path: str, *, lengths: bool = False
) -> Problem:
    """Read a problem and return it under the schedule of a plan, if there is one.

    Parameters
    ----------
    name, lengths
        As for ``load_problem``.
    path
        The plan's file.

    Raises
    ------
    InputError
        As ``load_problem``.
    """
    problem = _read(name, lengths=lengths)
    if plan is None:
        return problem
    found = problem.of_plan(plan.schedule, plan.chunks, plan.warmup_epsilon, plan.cuts)
    try:
        _ensure_divides(found)
    except InputError as error:
        field = (error.field or "").removeprefix("training.")
        raise InputError(error.message, file=path, field=field) from None
    return found


def _read(name: str, *, lengths: bool) -> Problem:
    from hetopt.problem.reading import read_problem

    problem = read_problem(name)
    if problem.training.lengths is not None and not lengths:
        msg = "this command takes sequences of one length: leave it out"
        raise InputError(msg, file=name, field="training.lengths")
    return problem


def _ensure_divides(problem: Problem) -> None:
    """Raise InputError if the schedule cannot divide the model among stages."""
    from hetopt.cost.chunks import placed_units

    training = problem.training
    placed_units(problem.model, training.schedule, training.chunks, problem.pins.cuts)


def placed(
    error: InputError, name: str | None, schedule: str | None, chunks: object | None
) -> InputError:
    """Return an error that names the option, or the problem's file, that it is about.

    Parameters
    ----------
    error
        Changed only if it names a field of a problem and no file.
    name
        The problem's name; None if unknown.
    schedule, chunks
        Values of options that replace those of the file; None if not given.
    """
    field = error.field or ""
    if error.file is not None or field.startswith("--"):
        return error
    from hetopt.problem.problem import SECTIONS

    if field.partition(".")[0] not in (*SECTIONS, "launcher"):
        return error
    given = {"training.schedule": schedule, "training.chunks": chunks}.get(field)
    if given is not None:
        option = f"--{field.removeprefix('training.')}"
        return type(error)(error.message, field=option)
    return type(error)(error.message, file=name, field=field)


def load_table(problem: Problem, path: str | None) -> CostTable:
    """Read the table of ``problem``, or build it if ``path`` is None."""
    if path is None:
        from hetopt.cost.build import build_table

        return build_table(problem)
    from hetopt.cost.table_file.file import read_table

    return read_table(path, problem)
