"""Verify a certificate: derive every bound again, search a sample again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hetopt.cli.inputs import load_table, seconds, whole
from hetopt.cli.output import emit
from hetopt.cli.planned import add_planned, load_planned
from hetopt.errors import CheckError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hetopt.check.certificate import CertificateCheck, Doubt, Finding
    from hetopt.cost.table import CostTable
    from hetopt.problem.document import Document
    from hetopt.problem.problem import Problem

#: Programs searched again unless the user says otherwise.
_SAMPLE = 5


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add_planned(command)
    command.add_argument(
        "certificate",
        metavar="CERT",
        help="a file that `hetopt plan --certificate` wrote",
    )
    command.add_argument(
        "--sample",
        type=_sample,
        default=_SAMPLE,
        metavar="N",
        help="how many of the programs that were searched to search again, drawn at "
        f"random, or `all` (default: {_SAMPLE})",
    )
    command.add_argument(
        "--seed", type=whole(0), metavar="N", help="of the sample (default: chance)"
    )
    command.add_argument(
        "--time-limit",
        type=seconds,
        default=300.0,
        metavar="S",
        help="for each program searched again, seconds (default: 300)",
    )


def run(options: argparse.Namespace) -> int:
    """Verify, and raise CheckError with one line for each claim that fails."""
    from hetopt.check.certificate import CertificateCheck
    from hetopt.problem.document import load_document

    planned = load_planned(options.problem, options.plan)
    problem = planned.problem
    table = load_table(problem, options.table)
    document = load_document(options.certificate)
    try:
        if not isinstance(document.data, dict):
            raise InputError("is not a JSON object, expected a certificate")
        check = CertificateCheck(
            problem,
            table,
            document.data,
            planned.plan,
            planned.relaxed,
            planned.objective,
        )
    except InputError as error:
        raise _placed(document, options.certificate, error) from error
    findings = list(check.findings())
    if findings:
        raise CheckError([_shown(document, options.certificate, f) for f in findings])
    searched = _search(problem, table, check, document, options)
    programs = len(check.claims)
    emit(
        f"{options.certificate}: verified: digests, plan, value, and the bounds of "
        f"all {programs} programs; {searched}"
    )
    return 0


def _search(
    problem: Problem,
    table: CostTable,
    check: CertificateCheck,
    document: Document,
    options: argparse.Namespace,
) -> str:
    """Search doubtful programs again; return what was done, in words."""
    if not check.doubts:
        return "no bound rests on a search"
    if check.objective == "simulated":
        return _search_simulated(problem, table, check, document, options)
    from hetopt.solvers.resolving import resolve, second_engine

    name, engine = second_engine(
        check.solver, options.seed or 0, table.schedule, check.principles
    )
    chosen = _chosen(check.doubts, options.sample, options.seed)
    searched = resolve(
        problem,
        table,
        chosen,
        engine,
        time_limit_s=options.time_limit,
        principles=check.principles,
    )
    _raise(searched, document, options.certificate)
    return (
        f"{len(chosen)} of {len(check.doubts)} that rest on a search were searched "
        f"again with {name}"
    )


def _search_simulated(
    problem: Problem,
    table: CostTable,
    check: CertificateCheck,
    document: Document,
    options: argparse.Namespace,
) -> str:
    """Do the same for simulated times, which only one search knows."""
    from hetopt.solvers.resolving import resolve_simulated

    chosen = _chosen(check.doubts, options.sample, options.seed)
    searched = resolve_simulated(
        problem, table, chosen, time_limit_s=options.time_limit
    )
    _raise(searched, document, options.certificate)
    listed = ", ".join(f"({d.stages}, {d.microbatches})" for d in check.doubts)
    return (
        f"{len(chosen)} of {len(check.doubts)} that rest on the search of simulated "
        f"times were searched again, by that search itself: no other confirms {listed}"
    )


def _raise(
    searched: Iterable[tuple[Doubt, str | None]], document: Document, file: str
) -> None:
    """Raise CheckError with one line for each program that was not confirmed."""
    findings = []
    for doubt, wrong in searched:
        if wrong is not None:
            place = _line(document, doubt.field)
            findings.append(f"{file}{place}: {doubt.field}: {wrong}")
    if findings:
        raise CheckError(findings)


def _chosen(
    doubts: Sequence[Doubt], sample: int | None, seed: int | None
) -> list[Doubt]:
    """Return all that a relaxation was said to prove, and a sample of the rest."""
    from random import Random, SystemRandom

    must = [doubt for doubt in doubts if doubt.by_bound]
    may = [doubt for doubt in doubts if not doubt.by_bound]
    if sample is None or sample >= len(may):
        return [*must, *may]
    chance = SystemRandom() if seed is None else Random(seed)
    return [*must, *chance.sample(may, sample)]


def _shown(document: Document, file: str, finding: Finding) -> str:
    return f"{file}{_line(document, finding.field)}: {finding.field}: {finding.message}"


def _placed(document: Document, file: str, error: InputError) -> InputError:
    place = document.place(_path(error.field or ""))
    line = None if place is None else place.line
    return InputError(error.message, file=file, line=line, field=error.field)


def _line(document: Document, field: str) -> str:
    place = document.place(_path(field))
    return "" if place is None else f":{place.line}"


def _path(field: str) -> tuple[str | int, ...]:
    return tuple(int(key) if key.isdigit() else key for key in field.split(".") if key)


def _sample(text: str) -> int | None:
    """Argument type: a whole number from 0, or ``all``."""
    if text == "all":
        return None
    if not text.isdecimal():
        msg = f"{text!r} is neither a whole number nor `all`"
        raise argparse.ArgumentTypeError(msg)
    return int(text)
