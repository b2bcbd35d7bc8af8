"""Derives the bounds of certificates again, and searches what rests on a search."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.errors import CheckError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from hetopt.base.deadline import Deadline
    from hetopt.check.verify.findings import Doubt, Finding
    from hetopt.check.verify.tasks import BoundsTask, SearchTask
    from hetopt.check.verify.tree import Leaf
    from hetopt.cli.certificate_file import File
    from hetopt.report.progress import ProgressBar
    from hetopt.solvers.pools.work_sharing import WorkSharing

#: What to do about what was not verified in time.
MORE = "give it more with --time-limit"
#: How programs were confirmed that no other engine searches, and what follows.
_TAKEN = "only by the search that claims them"
_UNCONFIRMED = "not all of them confirmed, so the result counts as feasible"


class Verifier:
    """Verifies certificates; raises CheckError for false claims.

    Parameters
    ----------
    leaves
        The certificates of a file; with one deadline, and one sample of what rests on
        searches.
    work
        Its payload is what ``CertificateCheck.verified`` returns, of each of them.
    seed
        Of the sample, and of other engines; None: random.
    """

    def __init__(
        self,
        leaves: Sequence[Leaf],
        file: File,
        bar: ProgressBar,
        work: WorkSharing,
        deadline: Deadline,
        seed: int | None,
    ) -> None:
        self.leaves, self.file = leaves, file
        self.bar, self.work, self.deadline, self.seed = bar, work, deadline, seed
        self._programs = sum(len(leaf.check.claims) for leaf in leaves)
        #: Programs whose plans were run one by one, and those searched again only by
        #: the search that claimed them.
        self.listed = 0
        self.taken: list[Doubt] = []

    @property
    def _of_paths(self) -> bool:
        """Whether all bounds are those of paths."""
        return all(leaf.check.of_paths for leaf in self.leaves)

    def run(self, sample: int | None) -> str:
        """Return what was searched, in words.

        Parameters
        ----------
        sample
            How many of the programs refuted by a search to search; None: all.
        """
        self._derive()
        doubts = [
            (number, doubt)
            for number, leaf in enumerate(self.leaves)
            for doubt in leaf.check.doubts
        ]
        if not doubts and not self._of_paths:
            return "no bound rests on a search"
        chosen = _chosen(doubts, sample, self.seed)
        resolved: Counter[str] = Counter()
        groups: dict[int, list[Doubt]] = {}
        for number, doubt in chosen:
            groups.setdefault(number, []).append(doubt)
        done = 0
        for left, (number, own) in enumerate(groups.items(), start=1 - len(groups)):
            try:
                resolved += _Searching(self, number, done, len(chosen)).run(own)
            except CheckError as error:
                if not left or not self.deadline.is_over():
                    raise
                msg = f"{counted(-left, 'problem')} more not searched again: {MORE}"
                lines = [*error.findings, f"{self.file.name}: {msg}"]
                raise CheckError(lines) from None
            done += len(own)
        return self._words(chosen, doubts, resolved)

    def _derive(self) -> None:
        """Derive all bounds again; what does not follow becomes a doubt."""
        from hetopt.check.verify.bound import OutOfTime

        before = 0
        for number, leaf in enumerate(self.leaves):
            check = leaf.check
            check.perform = _Numbered(self.work, number).perform
            check.on_progress = partial(self._derived, before)
            try:
                findings = list(check.findings())
            except OutOfTime:
                raise self._late(number) from None
            self.file.ensure_none(findings, leaf.field)
            before += len(check.claims)

    def _derived(self, before: int, done: int, what: str) -> None:
        """Show the progress of one certificate, given the programs before its own."""
        self.show(before + done, what, self._programs)

    def _late(self, number: int) -> CheckError:
        """Return an error for a certificate whose bounds took too long."""
        msg = "programs: the bounds could not be derived again within the time limit"
        if len(self.leaves) > 1:
            left = self.leaves[number:]
            msg = (
                f"{left[0].field}: the bounds of {len(left)} of "
                f"{counted(len(self.leaves), 'problem')}, from this one on, could not "
                "be derived again within the time limit"
            )
        return CheckError([f"{self.file.name}: {msg}: {MORE}"])

    def show(self, done: int, what: str, programs: int) -> None:
        """Show the progress."""
        self.bar.show(done, programs, what)

    def _words(
        self,
        chosen: Sequence[tuple[int, Doubt]],
        doubts: Sequence[tuple[int, Doubt]],
        resolved: Counter[str],
    ) -> str:
        if self._of_paths:
            return self._shares(len(doubts) - len(chosen))
        words = [
            f"{len(chosen)} of {len(doubts)} that rest on a search were searched again"
        ]
        words += [f"{number} of them with {name}" for name, number in resolved.items()]
        if self.taken:
            words.append(f"{len(self.taken)} {_TAKEN}")
            return f"{', '.join(words)}: {_UNCONFIRMED}"
        return ", ".join(words)

    def _shares(self, unread: int) -> str:
        """Return how programs that are bounded by paths were confirmed, in words."""
        listed, taken = self.listed, self.taken
        shares = {
            "by bounds": self._programs - listed - len(taken) - unread,
            "by running all plans that bounds leave": listed,
            "not searched": unread,
            _TAKEN: len(taken),
        }
        words = [
            f"{number} {how} ({number / self._programs:.1%})"
            for how, number in shares.items()
            if number
        ]
        if taken:
            some = [f"({each.stages}, {each.microbatches})" for each in taken]
            words[-1] += f": {', '.join(some)}"
        verdict = "all of them confirmed"
        if taken or unread:
            verdict = _UNCONFIRMED
        return f"{', '.join(words)}: {verdict}"


@dataclass(frozen=True, slots=True)
class _Numbered:
    """Does the tasks of one certificate."""

    work: WorkSharing
    number: int

    def perform(
        self, tasks: Sequence[BoundsTask | SearchTask]
    ) -> Iterator[tuple[Any, Any]]:
        """Yield each task with its result."""
        numbered = [(self.number, task) for task in tasks]
        for (_, task), value in self.work.perform(numbered):
            yield task, value


class _Searching:
    """Searches programs of one certificate again.

    Parameters
    ----------
    number
        That of the certificate.
    done, programs
        Programs of others that were searched, and of all that will be.
    """

    def __init__(self, of: Verifier, number: int, done: int, programs: int) -> None:
        self._of, self._number, leaf = of, number, of.leaves[number]
        self.field, self.check = leaf.field, leaf.check
        self.problem, self.table = leaf.check.problem, leaf.check.searched
        self._done, self._programs = done, programs

    def run(self, chosen: Sequence[Doubt]) -> Counter[str]:
        """Return how many were searched by other engines, by their names."""
        self._refute(chosen)
        with_ranges = [doubt for doubt in chosen if doubt.ranges is not None]
        left = [doubt for doubt in chosen if doubt.ranges is None]
        left += self._search(with_ranges)
        if self.check.of_paths:
            # Another engine has searched for plans that there should not be.
            taken = [each for each in left if each.bound_ps is not None]
            self._of.taken += taken
            if not self.check.principles.relaxed:
                self._simulated(left)
                return Counter()
            self._relaxed(taken)
            left = [each for each in left if each.bound_ps is None]
        return Counter({self._resolve(left): len(left)} if left else {})

    def _refute(self, doubts: Sequence[Doubt]) -> None:
        """Raise CheckError for a bound that a quickly made plan refutes.

        Only bounds above the certificate's value are tried: such a plan is hardly ever
        better than the certificate's own.
        """
        from hetopt.solvers.certificate.search_again import better, refuted_at_once

        value, simulated = self.check.value, self.check.objective == "simulated"
        for doubt in doubts:
            bound = doubt.bound_ps
            far = bound is None or value is None or bound > value
            if far and refuted_at_once(self.problem, self.table, doubt, simulated):
                self._raise([_finding(doubt, better(doubt))])

    def _search(self, doubts: Sequence[Doubt]) -> list[Doubt]:
        """Search programs by ``check.verify.search``; return those it leaves open."""
        from hetopt.check.verify.tasks import TOO_LONG_PS, SearchTask
        from hetopt.solvers.certificate.search_again import better, unsettled

        by_count: dict[tuple[int, int], dict[int, Doubt]] = {}
        for doubt in doubts:
            alone = doubt.stages if self.check.of_paths else 0
            own = by_count.setdefault((doubt.microbatches, alone), {})
            own[doubt.stages] = doubt
        tasks = [
            SearchTask(
                q,
                {
                    p: TOO_LONG_PS if doubt.bound_ps is None else doubt.bound_ps
                    for p, doubt in group.items()
                },
                {p: doubt.ranges or () for p, doubt in group.items()},
            )
            for (q, _), group in by_count.items()
        ]
        # First the tasks with most bounds in doubt: they are most likely to fail.
        tasks.sort(key=lambda task: -len(task.bounds))
        left = []
        work = _Numbered(self._of.work, self._number)
        known = {(doubt.stages, doubt.microbatches): doubt for doubt in doubts}
        for task, found in work.perform(tasks):
            group = {p: known[p, task.microbatches] for p in task.bounds}
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
            open_ = [group[p] for p, outcome in found.items() if outcome.open]
            self._count(len(group) - len(open_))
            self._of.listed += sum(
                each.listed > 0 and not each.open for each in found.values()
            )
            left += open_
        return left

    def _resolve(self, doubts: Sequence[Doubt]) -> str:
        """Search programs with another engine; return its name."""
        from hetopt.solvers.certificate.search_again import resolve, second_engine

        name, engine = second_engine(
            self.check.solver, self._of.seed or 0, self.check.principles
        )
        self._confirm(
            resolve(
                self.problem,
                self.table,
                doubts,
                engine,
                deadline=self._of.deadline,
                principles=self.check.principles,
            )
        )
        return name

    def _simulated(self, chosen: Sequence[Doubt]) -> None:
        """Search again by paths, for which there is only one engine."""
        from hetopt.solvers.certificate.search_again import resolve_simulated

        deadline = self._of.deadline
        self._confirm(
            resolve_simulated(
                self.problem,
                self.table,
                chosen,
                deadline=deadline,
                objective=self.check.objective,
            )
        )

    def _relaxed(self, chosen: Sequence[Doubt]) -> None:
        """Derive bounds on simulated times again if principles are relaxed."""
        from hetopt.solvers.certificate.search_again import resolve_relaxed

        self._confirm(
            resolve_relaxed(
                self.problem,
                self.table,
                chosen,
                deadline=self._of.deadline,
                principles=self.check.principles,
            )
        )

    def _confirm(self, searched: Iterable[tuple[Doubt, str | None]]) -> None:
        """Raise CheckError at the first program that is not confirmed."""
        for doubt, wrong in searched:
            self._count(1)
            if wrong is not None:
                self._raise([_finding(doubt, wrong)])

    def _count(self, programs: int) -> None:
        self._done += programs
        self._of.show(self._done, "searched again", self._programs)

    def _raise(self, findings: Iterable[Finding]) -> None:
        self._of.file.ensure_none(findings, self.field)


def _finding(doubt: Doubt, message: str) -> Finding:
    from hetopt.check.verify.findings import Finding

    return Finding(doubt.field, message)


def _chosen(
    doubts: Sequence[tuple[int, Doubt]], sample: int | None, seed: int | None
) -> list[tuple[int, Doubt]]:
    """Return the doubts that are always searched, and a sample of the others.

    Each comes with the number of its certificate.
    """
    from random import Random, SystemRandom

    must = [each for each in doubts if each[1].always]
    may = [each for each in doubts if not each[1].always]
    if sample is None or sample >= len(may):
        return [*must, *may]
    chance = SystemRandom() if seed is None else Random(seed)
    return [*must, *chance.sample(may, sample)]
