"""A file that keeps what every search of a leaf has found, to resume from.

One JSON object per line: the first says what is searched; each later one has the
problem and the table of a leaf by their digests, the cutoff of its search, whether the
search ended by itself, and its result. A line is appended when a search ends, so a
search that is killed loses at most the leaf it was in.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from hetopt.base.line_file import LineFile
from hetopt.base.reading import MIB
from hetopt.check import check_result
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import HetoptError, InputError
from hetopt.results.result import Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.solvers.search.node import Leaf

JOURNAL_SCHEMA = "hetopt-search-journal/1"
_WHAT, _MOST_BYTES = "a journal", 256 * MIB


class Kept(NamedTuple):
    """A search of a leaf that is in the journal."""

    result: Mapping[str, Any]
    cutoff: float
    ended: bool


class SearchJournal:
    """The journal of a search that branches, open for appending.

    Parameters
    ----------
    path
        Created if it does not exist.
    asked
        What is searched, as plain JSON data; a journal is for one such search.

    Raises
    ------
    InputError
        The file is the journal of another search, or no journal.
    """

    def __init__(self, path: str, asked: Mapping[str, Any]) -> None:
        self._path = path
        self._known: dict[tuple[str, str], Kept] = {}
        self._file = LineFile(path, _WHAT, _MOST_BYTES)
        try:
            for number, entry in self._file.resume({"schema": JOURNAL_SCHEMA, **asked}):
                try:
                    self._take(entry)
                except (LookupError, TypeError, ValueError) as error:
                    raise self._file.wrong(number, error) from error
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

    def known(self, leaf: Leaf, cutoff: float) -> Result | None:
        """Return the result of a search of a leaf, if its cutoff suffices.

        Raises
        ------
        InputError
            What the file says of the leaf is wrong.
        """
        kept = self._known.get(_key(leaf))
        if kept is None or kept.cutoff < cutoff:
            return None
        space = leaf.space
        try:
            findings = check_result(space.problem, space.table, kept.result)
            if not findings:
                return Result.from_json(kept.result)
        except (HetoptError, LookupError, TypeError, ValueError) as error:
            findings = [str(error)]
        msg = f"a result in it is wrong ({findings[0]}): use another file"
        raise InputError(msg, file=self._path)

    def has_ended(self, leaf: Leaf) -> bool:
        """Whether the search of a leaf that is in the journal ended by itself."""
        kept = self._known.get(_key(leaf))
        return kept is not None and kept.ended

    def append(self, leaf: Leaf, cutoff: float, result: Result, *, ended: bool) -> None:
        """Append the result of a search."""
        problem, table = _key(leaf)
        self._file.append(
            {
                "problem": problem,
                "table": table,
                "cutoff": None if math.isinf(cutoff) else cutoff,
                "ended": ended,
                "result": result.to_json(),
            }
        )

    def _take(self, entry: Mapping[str, Any]) -> None:
        cutoff = entry["cutoff"]
        key = str(entry["problem"]), str(entry["table"])
        own = Kept(
            entry["result"],
            math.inf if cutoff is None else float(cutoff),
            bool(entry["ended"]),
        )
        before = self._known.get(key)
        if before is None or own.ended or not before.ended:
            self._known[key] = own


def _key(leaf: Leaf) -> tuple[str, str]:
    return leaf.space.table.problem_digest, table_digest(leaf.space.table)
