"""Verify a certificate: derive or search every bound again."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from hetopt.base.deadline import Deadline
from hetopt.base.reading import named
from hetopt.base.words import counted
from hetopt.cli.as_asked import ensure_as_asked, schedule_note
from hetopt.cli.flag import Flag
from hetopt.cli.flags import PLANNED, SEED, TIME_LIMIT
from hetopt.cli.inputs import load_table
from hetopt.cli.output import emit
from hetopt.cli.planned import ensure_runs, launcher_in, load_planned, runs_of
from hetopt.cli.preparing import prepare
from hetopt.errors import CheckError, InputError

if TYPE_CHECKING:
    from hetopt.check.verify.certificate import CertificateCheck
    from hetopt.check.verify.tree import Leaf
    from hetopt.cli.certificate_file import File
    from hetopt.cli.planned import Planned
    from hetopt.cost.table.table import CostTable
    from hetopt.solvers.registry import KernelSetName

#: Most values of a certificate's file.
_MOST_VALUES = 2_000_000


def _sample(text: str) -> int | None:
    """Argument type: a whole number from 0, or ``all``."""
    if text == "all":
        return None
    if not text.isdecimal():
        msg = f"{text!r} is neither a whole number nor `all`"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


#: What this command takes.
TAKES = (
    *PLANNED,
    Flag("certificate", "a file that `hetopt plan --certificate` wrote", "CERT"),
    Flag(
        "--sample",
        "how many of the programs that were refuted by a search to search again, drawn "
        "at random, or `all` (default: all); others are always searched again",
        "N",
        type=_sample,
    ),
    SEED.but("of the sample (default: random)", default=None),
    TIME_LIMIT.but("for everything, in seconds (default: 300)", default=300.0),
)


def run(options: argparse.Namespace) -> int:
    """Verify, and raise CheckError with one line for each claim that fails."""
    from hetopt.check.verify.tasks import make
    from hetopt.cli.certificate_file import File
    from hetopt.cli.verifying import Verifier
    from hetopt.problem.document.document import load_document
    from hetopt.report.progress import ProgressBar
    from hetopt.solvers.pools.opening import worker_count
    from hetopt.solvers.pools.work_sharing import WorkSharing

    planned = load_planned(options.problem, options.plan, options.table)
    table = load_table(planned.problem, options.table)
    document = load_document(options.certificate, _MOST_VALUES)
    file = File(options.certificate, options.plan, document)
    deadline = Deadline.after(options.time_limit)
    try:
        leaves, what = _leaves(planned, table, file, deadline)
    except InputError as error:
        raise file.placed(error) from error
    if planned.result is not None:
        plans = [] if planned.said.plan is None else [planned.said.plan]
        with named(options.plan):
            ensure_runs(planned.problem, planned.result, plans)
            ensure_as_asked(options.problem, planned.result)
    checks = [leaf.check for leaf in leaves]
    left_s = deadline.left_s()
    prepare(tuple({name for check in checks for name in _kernels(check)}))
    # Compiling is no part of verifying: it is done once.
    deadline = Deadline.after(left_s)
    if deadline.limit_s is not None:
        for check in checks:
            check.end = deadline.began + deadline.limit_s
    payload = [check.verified() for check in checks]
    with (
        ProgressBar(sys.stderr) as bar,
        closing(WorkSharing(worker_count(None) - 1, make, payload)) as work,
    ):
        verifier = Verifier(leaves, file, bar, work, deadline, options.seed)
        searched = verifier.run(options.sample)
    if planned.result is not None:
        _ensure_result_holds(planned, table)
    programs = sum(len(check.claims) for check in checks)
    solvers = " and ".join(sorted({check.solver for check in checks})) or "a solver"
    unused = [
        f"that {solvers} settled programs",
        "bounds of problems and programs in the plan file above those of the "
        "certificate",
    ]
    if planned.result is not None and planned.result.get("launch"):
        unused.append("the plan without the launcher's limits")
    emit(
        f"{options.certificate}: verified: {what} "
        f"{'the only program' if programs == 1 else f'all {programs} programs'}; "
        f"{searched}\n"
        f"not verified, as no claim rests on it: {', '.join(unused)}, and which were "
        "refuted by a bound and which by a search"
    )
    if (note := schedule_note(options.problem, planned.result or {})) is not None:
        emit(note)
    return 0


def _leaves(
    planned: Planned, table: CostTable, file: File, deadline: Deadline
) -> tuple[list[Leaf], str]:
    """Return the certificates in a file, and what of it was verified by that.

    Raises
    ------
    CheckError
        The result does not follow from their bounds, or they are so many that the time
        is up.
    InputError
        The file is no certificate, or not one of the plan file.
    """
    from hetopt.check.verify.bound import OutOfTime
    from hetopt.check.verify.certificate import CertificateCheck
    from hetopt.check.verify.tree import Leaf, TreeCheck
    from hetopt.cli.verifying import MORE
    from hetopt.results.certificate import TREE_SCHEMA, Certificate, TreeCertificate

    if not isinstance(file.document.data, dict):
        raise InputError("is not a JSON object, expected a certificate")
    data = file.document.data
    if data.get("schema") != TREE_SCHEMA:
        Certificate.from_json(data)
        if planned.result is not None and (over := planned.result.get("over")):
            msg = (
                f"is of one problem, but the result is of a search over "
                f"{', '.join(name for each in over for name in each)}: give the "
                "certificate of that search"
            )
            raise InputError(msg, field="schema")
        check = CertificateCheck(planned.problem, table, data, planned.said)
        return [Leaf("", check)], "digests, plan, value, and the bounds of"
    TreeCertificate.from_json(data)
    if planned.result is None:
        msg = (
            "is of a search that branched, but the plan file has only a plan: give the "
            "result that `hetopt plan --out` wrote"
        )
        raise InputError(msg, field="schema")
    launcher = launcher_in(planned.problem, planned.result)
    tree = TreeCheck(planned.problem, table, data, planned.result, launcher, deadline)
    try:
        file.ensure_none(tree.findings())
    except OutOfTime:
        msg = (
            f"{file.name}: claims: the time limit ended while their problems were set "
            f"up, {len(tree.leaves)} of them in time: {MORE}"
        )
        raise CheckError([msg]) from None
    problems = counted(len(tree.leaves), "problem")
    what = f"digests, plan, that the bound follows from those of {problems}, and"
    return tree.leaves, f"{what} the bounds of"


def _ensure_result_holds(planned: Planned, table: CostTable) -> None:
    """Raise CheckError if `hetopt check` would refuse what else the plan file says."""
    from hetopt.check import check_result

    assert planned.result is not None
    runs = runs_of(planned.problem, planned.result)
    if findings := check_result(planned.problem, table, planned.result, runs=runs):
        raise CheckError(findings)


def _kernels(check: CertificateCheck) -> tuple[KernelSetName, ...]:
    """Return the compiled functions that verifying a certificate may need."""
    from hetopt.solvers.certificate.search_again import second_engine
    from hetopt.solvers.kernels import kernels_for

    schedule = check.problem.training.schedule
    if check.of_paths:
        own = kernels_for("auto", objective="simulated", schedules=[schedule])
        return ("verification", *own)
    name, _ = second_engine(check.solver, 0, check.principles)
    return ("verification", *kernels_for(name))
