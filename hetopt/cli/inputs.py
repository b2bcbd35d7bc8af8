"""Arguments and inputs of several commands: numbers, problems, tables."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from hetopt.cli.numbers import chunk_counts, seconds, whole
from hetopt.errors import InputError
from hetopt.problem.training.choices import ANY, INTERLEAVED
from hetopt.problem.training.principles import Principles
from hetopt.schedule.schedules import RULES
from hetopt.solvers.registry import relaxing_names

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import AskedSchedule

    #: What options are added to: a parser, or a group of one.
    Container = argparse._ActionsContainer

#: Schedules by the number of blocking transfers at a boundary.
_BLOCKING = {rule.blocking: rule.name for rule in RULES.values() if rule.blocking}


def workers(jobs: int | None) -> int | None:
    """Return the number of workers for ``--jobs``; print a note if it is lower."""
    if jobs is None:
        return None
    from hetopt.cli.output import complain
    from hetopt.solvers.pools.opening import most_workers

    most = most_workers()
    if jobs > most:
        complain(f"--jobs {jobs}: {most} workers are started, a few per core")
    return min(jobs, most)


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


def principles_of(text: str | None) -> Principles:
    """Read ``--relax``: comma-separated names; without any, nothing is relaxed."""
    try:
        return Principles.relaxing(text.split(",") if text else ())
    except ValueError as error:
        raise InputError(str(error), field="--relax") from error


def add_file(command: Container, name: str, text: str, **more: Any) -> None:
    """Add an option that names a file.

    Parameters
    ----------
    text
        Its help.
    more
        Further arguments of ``add_argument``.
    """
    command.add_argument(name, metavar="FILE", help=text, **more)


def add_switch(command: Container, name: str, text: str) -> None:
    """Add an option without a value; it is off by default."""
    command.add_argument(name, action="store_true", help=text)


def add_count(
    command: Container, name: str, text: str, *, least: int = 1, **more: Any
) -> None:
    """Add an option that is a whole number of at least ``least``.

    Parameters
    ----------
    text, more
        As for ``add_file``.
    """
    settings = {"type": whole(least), "metavar": "N", **more}
    command.add_argument(name, help=text, **settings)


def add_problem(command: Container) -> None:
    """Add the PROBLEM argument."""
    command.add_argument(
        "problem",
        metavar="PROBLEM",
        help="a problem file, or the name of one that ships with hetopt",
    )


def add_solver(command: Container) -> None:
    """Add the ``--solver`` option."""
    command.add_argument(
        "--solver",
        metavar="NAME",
        default="auto",
        help="one that `hetopt catalog` lists (default: auto)",
    )


def add_jobs(command: Container) -> None:
    """Add the ``--jobs`` option of a search."""
    add_count(
        command,
        "--jobs",
        "workers (default: one per core); 1: work in this process, start none",
    )


def add_time_limit(command: Container, text: str, **more: Any) -> None:
    """Add the ``--time-limit`` option; ``text`` is its help."""
    command.add_argument("--time-limit", type=seconds, metavar="S", help=text, **more)


def add_schedule(command: Container, *, several: bool = False) -> None:
    """Add the ``--schedule`` option.

    Parameters
    ----------
    several
        Whether ``auto`` is a choice: the best of all schedules.
    """
    from hetopt.problem.training.choices import FREE, SCHEDULE_CHOICES, asked_name

    known = ", ".join(SCHEDULE_CHOICES)
    if several:
        known += f"; {ANY}: the best over all of these but {FREE}"
    command.add_argument(
        "--schedule",
        type=asked_name,
        choices=(*SCHEDULE_CHOICES, ANY) if several else SCHEDULE_CHOICES,
        metavar="NAME",
        help=f"instead of the problem's: {known}",
    )
    command.add_argument(
        "--blocking",
        type=int,
        choices=sorted(_BLOCKING),
        metavar="N",
        help="transfers at a boundary that --schedule 1f1b-blocking waits for: 2 "
        "(default), or 1, both ways at once (1f1b-batched)",
    )
    add_chunks(command, several=several)


def add_chunks(command: Container, *, several: bool = False) -> None:
    """Add the ``--chunks`` option.

    Parameters
    ----------
    several
        Whether several numbers make sense, all of which are tried.
    """
    tried = f"; which to try with {ANY} (default: 2,4)"
    command.add_argument(
        "--chunks",
        type=chunk_counts,
        metavar="V",
        help=f"parts of the model on every stage, with {INTERLEAVED} 2 or more"
        f"{tried if several else ''}",
    )


def add_relax(command: Container, default: str = "none") -> None:
    """Add the ``--relax`` option; ``default`` says in words what is relaxed without."""
    command.add_argument(
        "--relax",
        metavar="P,...",
        help="principles that plans need not keep: p3 (stages of a cluster stand "
        "together), p4 (and share one strategy), p4-falling-tp (tp never rises along "
        f"them); for {relaxing_names()} (default: {default})",
    )


def add_launcher(command: Container) -> None:
    """Add the ``--for`` option."""
    from hetopt.export.registry import SHIPPED

    command.add_argument(
        "--for",
        dest="launcher",
        metavar="LAUNCHER",
        help="only plans that this launcher runs as they are, and what that costs: "
        f"{', '.join(name for name, limited in SHIPPED.items() if limited)}; none: "
        "any plan (default: the problem's launcher)",
    )


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
    default = _BLOCKING[max(_BLOCKING)]
    if asked != default:
        msg = f"goes with --schedule {default} alone: leave it out, or name that"
        raise InputError(msg, field="--blocking")
    return _BLOCKING[options.blocking]


def add_table(command: Container) -> None:
    """Add the ``--table`` option."""
    add_file(
        command,
        "--table",
        "coefficients that `hetopt table` wrote, instead of modelled ones",
    )


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
    found = problem.of_plan(plan.schedule, plan.chunks, plan.warmup_epsilon)
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
    placed_units(problem.model, training.schedule, training.chunks)


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
