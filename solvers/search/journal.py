"""A file that keeps what a search has found and proven, to resume from.

One JSON object per line, appended as soon as it is known, so a search that is killed
leaves at most one incomplete line, which the next one cuts off. The first line says
what is searched. A later one is

- ``search``: the table whose programs (p, q) the lines that follow are about, the time
  that is minimised there, and the ``limit`` above which plans are of no interest;
- ``decision``: a plan there, with its ``value``;
- ``stages``, ``microbatches``: a program there, ``how`` it was settled and its
  ``bound``;
- ``infeasible``: programs that have no plan at all;
- ``result``: what the search of a leaf returned, with its cutoff and whether it ended
  by itself.

Limits, values and bounds are in 1 / PERIOD_SCALE ticks. A bound is valid whichever
solver proved it, so a search may be resumed with another solver, seed or number of
jobs.

For human readers, lines also have the progress of the whole search: ``elapsed_s``
including earlier runs, and ``incumbent_s`` and ``lower_bound_s`` of the objective.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from hetopt.base.line_file import LineFile
from hetopt.base.reading import MIB
from hetopt.base.words import describe
from hetopt.check import check_plan, check_result
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import HetoptError, InputError
from hetopt.formulations.decision import Decision
from hetopt.problem.training.principles import Principles
from hetopt.results.result import Result
from hetopt.solvers.decisions.assembly import plan_of
from hetopt.solvers.search.journal_lines import line_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.solvers.progress import Progress
    from hetopt.solvers.race.ledger import Ledger, Program
    from hetopt.solvers.race.messages import Found
    from hetopt.solvers.request import Request
    from hetopt.solvers.search.node import Leaf

    #: Returns the progress of the whole search, given that of the search of its leaf.
    Now = Callable[[Progress | None], Progress]

JOURNAL_SCHEMA = "hetopt-journal/2"
_WHAT = "a journal"
#: About a million lines.
MOST_BYTES = 256 * MIB
#: What a wrong line may raise.
_FAULTS = (
    HetoptError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class JournalError(InputError):
    """A journal is of another search, or none."""


class Returned(NamedTuple):
    """A search of a leaf.

    Attributes
    ----------
    ended
        Whether it ended by itself.
    """

    leaf: Leaf
    cutoff: float
    result: Result
    ended: bool


class _Line(NamedTuple):
    """A plan or a settled program, and the limit of the search that wrote it."""

    number: int
    limit: int
    entry: Mapping[str, Any]


class _Kept(NamedTuple):
    """The result of a leaf."""

    result: Mapping[str, Any]
    cutoff: float
    ended: bool


class Journal:
    """The journal of a search, open for appending.

    Parameters
    ----------
    path
        Created if it does not exist.
    asked
        What is searched, as plain JSON data; a journal is for one such search.
    now
        Returns the progress.

    Raises
    ------
    InputError
        The file is the journal of another search, or no journal.
    """

    def __init__(self, path: str, asked: Mapping[str, Any], now: Now) -> None:
        self.path = path
        self._objective, self._now = asked["objective"], now
        self._lines: dict[tuple[Any, ...], list[_Line]] = {}
        self._results: dict[tuple[str, str], list[_Kept]] = {}
        #: Seconds that earlier runs took.
        self._before_s = 0.0
        # What the last lines about programs belong to.
        self._last: dict[str, Any] | None = None
        self._file = LineFile(self.path, _WHAT, MOST_BYTES)
        try:
            for number, entry in self._file.resume({"schema": JOURNAL_SCHEMA, **asked}):
                try:
                    self._take(number, line_of(entry))
                except _FAULTS as error:
                    raise self._refused(number, error) from error
        except BaseException:
            self.close()
            raise

    @property
    def failure(self) -> InputError | None:
        """Why no more lines can be written, or None; the search goes on without."""
        return self._file.failure

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    # ------------------------------------------------------------------- leaves

    def known(self, leaf: Leaf, cutoff: float) -> tuple[Result | None, bool]:
        """Return the result of a search of a leaf whose cutoff suffices, if there is.

        A leaf is searched several times: of the results that suffice it is the one that
        was returned for this cutoff, so that all further cutoffs are those of the
        search that wrote the file.

        Returns
        -------
        The result, and whether it is the answer: its search ended by itself, or only a
        first plan is looked for.

        Raises
        ------
        JournalError
            What the file says of the leaf is wrong.
        """
        all_ = self._results.get(_digests(leaf.space.asked[1]), ())
        able = [each for each in all_ if each.cutoff >= cutoff]
        if not able:
            return None, False
        kept = able[0]
        if not leaf.was_quick:
            kept = max(reversed(able), key=lambda each: (each.ended, -each.cutoff))
        try:
            findings = _findings(leaf, kept.result)
            if not findings:
                result = Result.from_json(kept.result)
                return result, kept.ended or leaf.was_quick
        except _FAULTS as error:
            findings = [str(error)]
        msg = f"a result in it is wrong ({findings[0]}): use another file"
        raise JournalError(msg, file=self.path)

    def returned(self, search: Returned) -> None:
        """Append the result of a search of a leaf."""
        leaf, cutoff, result, ended = search
        problem, table = _digests(leaf.space.asked[1])
        entry = {
            "problem_digest": problem,
            "table_digest": table,
            "cutoff": None if math.isinf(cutoff) else cutoff,
            "ended": ended,
            "result": result.to_json(),
        }
        self._file.append({**entry, **self._progress(None)})

    # ----------------------------------------------------------------- programs

    def resume(self, ledger: Ledger, request: Request) -> None:
        """Put what is known of the programs of a request into their ledger.

        Raises
        ------
        JournalError
            A line is wrong.
        """
        for line in self._lines.get(_key(ledger), ()):
            try:
                _enter(line, ledger, request)
            except _FAULTS as error:
                raise self._refused(line.number, error) from error

    def found(self, ledger: Ledger, found: Found) -> None:
        """Append a plan."""
        decision = _to_json(found.decision, ledger.table)
        self._append(ledger, {"decision": decision, "value": found.value})

    def found_since(self, before: Mapping[Any, Found], ledger: Ledger) -> None:
        """Append the plans that a ledger had not before, by shape, if several are kept.

        What is refuted by the last of several is so only with all of them. Of one plan,
        what is solved is borne out by the plan, or searched again.
        """
        if ledger.top > 1:
            for shape, found in ledger.plans.items():
                if before.get(shape) is not found:
                    self.found(ledger, found)

    def settled(self, ledger: Ledger, program: Program) -> None:
        """Append how a program was settled, unless it is unsettled."""
        if program.how not in (None, "unsettled"):
            entry = {
                "stages": program.stages,
                "microbatches": program.microbatches,
                "how": program.how,
                "bound": program.bound,
                "searched": program.searched,
            }
            self._append(ledger, entry)

    def infeasible(self, ledger: Ledger, programs: Sequence[Program]) -> None:
        """Append programs that bounds showed to have no plan."""
        found = [[each.stages, each.microbatches] for each in programs]
        self._append(ledger, {"infeasible": found})

    def _append(self, ledger: Ledger, entry: Mapping[str, Any]) -> None:
        own = {"search": [*_key(ledger)], "limit": ledger.limit}
        if own != self._last:
            self._file.append(own)
            self._last = own
        progress = {}
        if ledger.objective == self._objective:
            # Times of other searches are not comparable.
            progress = self._progress(ledger.progress(0.0))
        self._file.append({**entry, **progress})

    def _progress(self, own: Progress | None) -> dict[str, Any]:
        now = self._now(own)
        return {
            "elapsed_s": round(self._before_s + now.elapsed_s, 3),
            "incumbent_s": now.incumbent_s,
            "lower_bound_s": now.bound_s,
        }

    # ------------------------------------------------------------------ reading

    def _take(self, number: int, entry: Mapping[str, Any]) -> None:
        self._before_s = entry.get("elapsed_s", self._before_s)
        if "result" in entry:
            self._keep(entry)
        elif "search" in entry:
            self._last = {**entry, "search": [*entry["search"]]}
        else:
            if self._last is None:
                msg = "it belongs to no search"
                raise ValueError(msg)
            own = self._lines.setdefault(tuple(self._last["search"]), [])
            own.append(_Line(number, self._last["limit"], entry))

    def _refused(self, number: int, error: Exception) -> JournalError:
        wrong = self._file.wrong(number, error)
        return JournalError(wrong.message, file=self.path, line=number)

    def _keep(self, entry: Mapping[str, Any]) -> None:
        cutoff = entry["cutoff"]
        key = entry["problem_digest"], entry["table_digest"]
        own = _Kept(
            entry["result"], math.inf if cutoff is None else cutoff, entry["ended"]
        )
        self._results.setdefault(key, []).append(own)


def _findings(leaf: Leaf, data: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a leaf's result."""
    space = leaf.space
    if space.asked[0] is space.problem:
        return check_result(*space.asked, data)
    # A plan on some nodes needs the memory that it needs as one of all nodes.
    result, (problem, table) = Result.from_json(data), space.whole.asked
    principles = Principles.relaxing(result.relaxed)
    found = []
    for priced in result.plans:
        plan = space.reported(priced).plan
        checked = check_plan(problem, table, plan, principles)
        for known_s, said_s in (
            (checked.closed_form_s, priced.closed_form_s),
            (checked.iteration_time_s, priced.iteration_time_s),
        ):
            if not math.isclose(known_s, said_s):
                found.append(f"a plan takes {known_s!r} s, not {said_s!r}")
    return found


def _digests(table: CostTable) -> tuple[str, str]:
    return table.problem_digest, table_digest(table)


def _key(ledger: Ledger) -> tuple[Any, ...]:
    return (*_digests(ledger.table), ledger.objective, ledger.top)


def _enter(line: _Line, ledger: Ledger, request: Request) -> None:
    """Put a line into a ledger."""
    entry, table = line.entry, ledger.table
    if "decision" in entry:
        decision = _from_json(entry["decision"], table)
        plan = plan_of(decision, table, table_digest(table))
        check_plan(request.problem, table, plan, request.params.principles)
        found = ledger.value_of(decision)
        if found.value != entry["value"]:
            said = describe(entry["value"])
            msg = f"the plan has value {found.value}, but the line says {said}"
            raise ValueError(msg)
        ledger.find(found)
        return
    if "infeasible" in entry:
        # A larger limit may leave plans that a smaller one rules out.
        for key in entry["infeasible"] if line.limit >= ledger.limit else ():
            ledger.programs[key].how = "infeasible"
        return
    program = ledger.programs[entry["stages"], entry["microbatches"]]
    program.bound = max(program.bound, entry["bound"])
    # Without it bounds hold for this problem alone.
    program.searched |= entry.get("searched", True)
    if line.limit >= ledger.limit and (
        entry["how"] != "solved" or ledger.has_best(program)
    ):
        # It would be settled in the same way.
        program.how = entry["how"]


def _to_json(decision: Decision, table: CostTable) -> dict[str, Any]:
    """Return a decision as plain JSON data, strategies by their rows of the table."""
    clusters = table.at(decision.microbatches).clusters
    runs = zip(decision.order, decision.strategies, strict=True)
    free = {} if decision.warmups is None else {"warmups": decision.warmups}
    return {
        "microbatches": decision.microbatches,
        "order": decision.order,
        "rows": [int(clusters[j].row(strategy)) for j, strategy in runs],
        "hosted": decision.hosted,
        "units": decision.units,
        **free,
    }


def _from_json(data: Mapping[str, Any], table: CostTable) -> Decision:
    clusters = table.at(data["microbatches"]).clusters
    runs = zip(data["order"], data["rows"], strict=True)
    return Decision(
        microbatches=data["microbatches"],
        order=tuple(data["order"]),
        strategies=tuple(clusters[j].strategies[k] for j, k in runs),
        hosted=tuple(data["hosted"]),
        units=tuple(data["units"]),
        warmups=tuple(data["warmups"]) if "warmups" in data else None,
    )
