"""Verify a certificate: derive or search every bound again."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from hetopt.base.deadline import Deadline
from hetopt.cli.inputs import add_count, add_time_limit, load_table
from hetopt.cli.output import emit
from hetopt.cli.planned import add_planned, load_planned
from hetopt.cli.preparing import prepare
from hetopt.errors import CheckError, InputError
from hetopt.problem.training.choices import with_present_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hetopt.check.verify.certificate import CertificateCheck
    from hetopt.check.verify.findings import Doubt, Finding
    from hetopt.problem.document.document import Document
    from hetopt.report.progress import ProgressBar
    from hetopt.solvers.pools.work_sharing import WorkSharing
    from hetopt.solvers.registry import KernelSetName


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
        default=None,
        metavar="N",
        help="how many of the programs that were refuted by a search to search again, "
        "drawn at random, or `all` (default: all); others are always searched again",
    )
    add_count(command, "--seed", "of the sample (default: random)", least=0)
    add_time_limit(command, "for everything, in seconds (default: 300)", default=300.0)


def run(options: argparse.Namespace) -> int:
    """Verify, and raise CheckError with one line for each claim that fails."""
    from hetopt.check.verify.certificate import CertificateCheck
    from hetopt.check.verify.tasks import make
    from hetopt.problem.document.document import load_document
    from hetopt.report.progress import ProgressBar
    from hetopt.report.schemas.certificate import CERTIFICATE
    from hetopt.report.schemas.shape import ensure_shape
    from hetopt.solvers.pools.opening import worker_count
    from hetopt.solvers.pools.work_sharing import WorkSharing

    planned = load_planned(options.problem, options.plan)
    problem = planned.problem
    table = load_table(problem, options.table)
    document = load_document(options.certificate)
    try:
        if not isinstance(document.data, dict):
            raise InputError("is not a JSON object, expected a certificate")
        data = with_present_names(document.data)
        ensure_shape(data, CERTIFICATE)
        check = CertificateCheck(problem, table, data, planned.said)
    except InputError as error:
        raise _placed(document, options.certificate, error) from error
    prepare(_kernels(check))
    deadline = Deadline.after(options.time_limit)
    if deadline.limit_s is not None:
        check.end = deadline.began + deadline.limit_s
    helpers = worker_count(None) - 1
    with (
        ProgressBar(sys.stderr) as bar,
        closing(WorkSharing(helpers, make, check.verified())) as work,
    ):
        check.perform = work.perform
        searched = _Verifier(check, options, document, bar, work, deadline).run()
    programs = len(check.claims)
    emit(
        f"{options.certificate}: verified: digests, plan, value, and the bounds of "
        f"{'the only program' if programs == 1 else f'all {programs} programs'}; "
        f"{searched}\n"
        f"not verified, as no claim rests on it: that {check.solver} settled programs, "
        "and which were refuted by a bound and which by a search"
    )
    return 0


def _kernels(check: CertificateCheck) -> tuple[KernelSetName, ...]:
    """Return the compiled functions that verifying a certificate may need."""
    from hetopt.solvers.certificate.search_again import second_engine
    from hetopt.solvers.kernels import kernels_for

    schedule = check.problem.training.schedule
    if check.objective == "simulated":
        own = kernels_for("auto", objective="simulated", schedules=[schedule])
        return ("verification", *own)
    name, _ = second_engine(check.solver, 0, check.principles)
    return ("verification", *kernels_for(name))


class _Verifier:
    """Derives bounds and searches programs; raises CheckError for false claims."""

    def __init__(
        self,
        check: CertificateCheck,
        options: argparse.Namespace,
        document: Document,
        bar: ProgressBar,
        work: WorkSharing,
        deadline: Deadline,
    ) -> None:
        self.check = check
        self.problem = check.problem
        self.table = check.searched
        self.deadline = deadline
        self.options = options
        self.document = document
        self.work = work
        self.bar = bar
        check.on_progress = self._show

    def run(self) -> str:
        """Return what was searched, in words."""
        from hetopt.check.verify.bound import OutOfTime

        try:
            findings = list(self.check.findings())
        except OutOfTime:
            msg = (
                "programs: the bounds could not be derived again within the time limit"
            )
            raise CheckError(
                [f"{self.options.certificate}: {msg}: give it more with --time-limit"]
            ) from None
        self._raise(findings)
        doubts = self.check.doubts
        if not doubts:
            return "no bound rests on a search"
        chosen = _chosen(doubts, self.options.sample, self.options.seed)
        self._refute(chosen)
        if self.check.objective == "simulated":
            return self._simulated(chosen)
        with_ranges = [doubt for doubt in chosen if doubt.ranges is not None]
        left = [doubt for doubt in chosen if doubt.ranges is None]
        left += self._search(with_ranges)
        words = (
            f"{len(chosen)} of {len(doubts)} that rest on a search were searched again"
        )
        if not left:
            return words
        return f"{words}, {len(left)} of them with {self._resolve(left)}"

    def _refute(self, doubts: Sequence[Doubt]) -> None:
        """Raise CheckError for a bound that a quickly made plan refutes.

        Only bounds above the certificate's value are tried: such a plan is hardly ever
        better than the certificate's own.
        """
        from hetopt.solvers.certificate.search_again import better, refuted_at_once

        value = self.check.value
        for doubt in doubts:
            bound = doubt.bound_ps
            far = bound is None or value is None or bound > value
            if far and refuted_at_once(self.problem, self.table, doubt):
                self._raise([_finding(doubt, better(doubt))])

    def _search(self, doubts: Sequence[Doubt]) -> list[Doubt]:
        """Search programs by ``check.verify.search``; return those it leaves open."""
        from hetopt.check.verify.tasks import TOO_LONG_PS, SearchTask
        from hetopt.solvers.certificate.search_again import better, unsettled

        by_count: dict[int, dict[int, Doubt]] = {}
        for doubt in doubts:
            by_count.setdefault(doubt.microbatches, {})[doubt.stages] = doubt
        tasks = [
            SearchTask(
                q,
                {
                    p: TOO_LONG_PS if doubt.bound_ps is None else doubt.bound_ps
                    for p, doubt in group.items()
                },
                {p: doubt.ranges or () for p, doubt in group.items()},
            )
            for q, group in by_count.items()
        ]
        # First the tasks with most bounds in doubt: they are most likely to fail.
        tasks.sort(key=lambda task: -len(task.bounds))
        left = []
        for done, (task, found) in enumerate(self.work.perform(tasks)):
            self._show(done + 1, "searched again", len(tasks))
            group = by_count[task.microbatches]
            if found is None:
                first, *others = group.values()
                self._raise([_finding(first, unsettled(first, len(others)))])
            self._raise(
                [
                    _finding(group[p], better(group[p]))
                    for p, outcome in found.items()
                    if outcome.plan is not None
                ]
            )
            left += [group[p] for p, outcome in found.items() if outcome.open]
        return left

    def _resolve(self, doubts: Sequence[Doubt]) -> str:
        """Search programs with another engine; return its name."""
        from hetopt.solvers.certificate.search_again import resolve, second_engine

        name, engine = second_engine(
            self.check.solver, self.options.seed or 0, self.check.principles
        )
        self._confirm(
            resolve(
                self.problem,
                self.table,
                doubts,
                engine,
                deadline=self.deadline,
                principles=self.check.principles,
            ),
            len(doubts),
        )
        return name

    def _simulated(self, chosen: Sequence[Doubt]) -> str:
        """Search again for simulated times, for which there is only one engine."""
        from hetopt.solvers.certificate.search_again import resolve_simulated

        self._confirm(
            resolve_simulated(self.problem, self.table, chosen, deadline=self.deadline),
            len(chosen),
        )
        doubts = self.check.doubts
        listed = ", ".join(f"({d.stages}, {d.microbatches})" for d in doubts)
        return (
            f"{len(chosen)} of {len(doubts)} that rest on a search of simulated times "
            f"were searched again, by that search itself: no other confirms {listed}"
        )

    def _confirm(
        self, searched: Iterable[tuple[Doubt, str | None]], programs: int
    ) -> None:
        """Raise CheckError at the first program that is not confirmed."""
        for done, (doubt, wrong) in enumerate(searched):
            self._show(done + 1, "searched again", programs)
            if wrong is not None:
                self._raise([_finding(doubt, wrong)])

    def _show(self, done: int, what: str, programs: int | None = None) -> None:
        self.bar.show(done, programs or len(self.check.claims), what)

    def _raise(self, findings: Sequence[Finding]) -> None:
        file = self.options.certificate
        if findings:
            raise CheckError([_shown(self.document, file, f) for f in findings])


def _finding(doubt: Doubt, message: str) -> Finding:
    from hetopt.check.verify.findings import Finding

    return Finding(doubt.field, message)


def _chosen(
    doubts: Sequence[Doubt], sample: int | None, seed: int | None
) -> list[Doubt]:
    """Return the doubts that are always searched, and a sample of the others."""
    from random import Random, SystemRandom

    must = [doubt for doubt in doubts if doubt.always]
    may = [doubt for doubt in doubts if not doubt.always]
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
