"""Solutions that other solvers wrote: GLPK, CBC, SCIP, HiGHS and Gurobi.

==========  ==================================================  ====================
solver      command                                             begins with
==========  ==================================================  ====================
GLPK        ``glpsol --freemps m.mps --output m.sol``           ``Problem:``
GLPK        ``glpsol --freemps m.mps --write m.sol``            ``c`` and ``s mip``
CBC         ``cbc m.mps solve solution m.sol``                  ``Optimal - objective``
SCIP        ``write solution m.sol``                            ``solution status:``
HiGHS       ``highs --solution_file m.sol m.mps``               ``Model status``
Gurobi      ``gurobi_cl ResultFile=m.sol m.mps``                ``# Objective value``
==========  ==================================================  ====================

CBC and SCIP leave out columns that are 0. GLPK's second form numbers the columns
instead of naming them, in the order of the file, which is the program's own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import dropwhile
from math import isfinite, nan
from typing import TYPE_CHECKING

from hetopt.base.reading import MIB, read_text
from hetopt.base.words import counted
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    #: Name and value of a row, sum of the magnitudes of its terms, and both sides.
    Row = tuple[str, float, float, float, float]

#: Largest file that is read: solutions of hetopt's programs are smaller.
MOST_BYTES = 128 * MIB

#: How far from whole an integer column may be: the loosest of the solvers' defaults.
WHOLE = 1e-5
#: How far a row may be from its sides, as a share of its terms: GLPK prints 6 digits.
ROW_SHARE = 1e-5

_CBC_HEAD = re.compile(r"(.*?) - objective value\s+(\S+)")
_GLPK_ENTRY = re.compile(r"\s*(\d+) (\S+)(?:\s+(.*))?$")
#: Words in a status that mean no solution, even if the file has values.
_NO_SOLUTION = ("infeasible", "unbounded", "undefined", "empty", "no integer", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The contents of a solution file.

    Attributes
    ----------
    path
        The file, as the user named it.
    solver
        The solver whose format it is.
    status
        The solver's own word for how it ended; empty if the file has none.
    values
        Values by the column's name, or by its number from 1 if ``numbered``.
    numbered
        Whether columns are numbered instead of named.
    sparse
        Whether columns that are 0 are left out.
    """

    path: str
    solver: str
    status: str
    values: Mapping[str, float]
    numbered: bool = False
    sparse: bool = False

    def columns(self, names: Sequence[str], integer: Sequence[bool]) -> list[float]:
        """Return the value of every column, rounded for integer columns.

        Raises
        ------
        InputError
            The solver found no solution, its columns are not this program's, or an
            integer column is further than ``WHOLE`` from whole.
        """
        status = self.status.lower()
        if not self.values or any(word in status for word in _NO_SOLUTION):
            said = f" (it says: {self.status})" if self.status else ""
            raise InputError(f"{self.solver} found no solution{said}", file=self.path)
        own = [str(number) for number in range(1, len(names) + 1)]
        keys = own if self.numbered else names
        strange = self.values.keys() - set(keys)
        if strange:
            msg = f"has column {min(strange)!r}, which is not in this program"
            raise InputError(msg, file=self.path)
        missing = next((key for key in keys if key not in self.values), None)
        if missing is not None and not self.sparse:
            msg = f"lacks column {missing!r} of this program"
            raise InputError(msg, file=self.path)
        values = [self.values.get(key, 0.0) for key in keys]
        for column, whole in enumerate(integer):
            if not whole:
                continue
            value = values[column]
            values[column] = float(round(value))
            if abs(value - values[column]) > WHOLE:
                msg = f"column {names[column]!r} is {value:g}, expected a whole number"
                raise InputError(msg, file=self.path)
        return values

    def ensure_holds(self, rows: Iterable[Row]) -> None:
        """Raise InputError for the first row that is not between its sides."""
        for name, value, size, lower, upper in rows:
            slack = ROW_SHARE * (1 + size)
            if not lower - slack <= value <= upper + slack:
                msg = (
                    f"violates row or column {name!r} of this program: {value:.8g}, "
                    f"expected {lower:.8g} to {upper:.8g}"
                )
                raise InputError(msg, file=self.path)


def read_solution(path: str) -> Solution:
    """Read a solution file; its first line tells the format.

    Raises
    ------
    InputError
        The file cannot be read, or is none of these formats.
    """
    read = read_text(path, "a solution", MOST_BYTES).splitlines()
    lines = [*dropwhile(lambda line: not line.strip(), read)]
    first = lines[0] if lines else ""
    try:
        if first.startswith("Model status"):
            return _highs(path, lines)
        if first.startswith("Problem:"):
            return _glpk(path, lines)
        if first.startswith(("c ", "s mip", "s bas", "s ipt")):
            return _glpk_raw(path, lines)
        if first.startswith(("solution status:", "objective value:", "no solution")):
            return _scip(path, lines)
        if first.startswith(("# Objective value", "# Solution for")):
            return _gurobi(path, lines)
        if _CBC_HEAD.match(first):
            return _cbc(path, lines)
    except ValueError as error:
        msg = f"is cut off or malformed: {error}"
        raise InputError(msg, file=path) from error
    msg = "is no solution file of GLPK, CBC, SCIP, HiGHS or Gurobi"
    raise InputError(msg, file=path)


def _find(lines: Sequence[str], start: str) -> int:
    """Return the number of the first line that starts with ``start``."""
    for number, line in enumerate(lines):
        if line.startswith(start):
            return number
    msg = f"no line starts with {start.strip()!r}"
    raise ValueError(msg)


def _values(entries: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Return numbers by name; raise ValueError for one not finite, or given twice."""
    values: dict[str, float] = {}
    for name, text in entries:
        try:
            value = float(text)
        except ValueError:
            value = nan
        if not isfinite(value):
            msg = f"{name} is {text}, expected a finite number"
            raise ValueError(msg)
        if name in values:
            msg = f"{name} occurs twice"
            raise ValueError(msg)
        values[name] = value
    return values


def _pairs(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the first two words of lines that have any."""
    for line in lines:
        if line.strip():
            name, value = _words(line, 2, "a column and its value")[:2]
            yield name, value


def _words(line: str, fewest: int, expected: str) -> list[str]:
    """Return the words of a line; raise ValueError if it has fewer than ``fewest``."""
    words = line.split()
    if len(words) < fewest:
        msg = f"line {line.strip()!r}, expected {expected}"
        raise ValueError(msg)
    return words


def _whole(word: str) -> int:
    """Return a whole number; raise ValueError unless it is one."""
    if not (word.isascii() and word.isdecimal()):
        msg = f"{word!r}, expected a whole number"
        raise ValueError(msg)
    return int(word)


def _highs(path: str, lines: list[str]) -> Solution:
    status = lines[1].strip() if len(lines) > 1 else ""
    if not any(line.startswith("# Columns") for line in lines):
        return Solution(path=path, solver="HiGHS", status=status, values={})
    start = _find(lines, "# Columns")
    count = _whole(_words(lines[start], 3, "the number of columns")[2])
    if lines[start - 2].strip() == "Infeasible":
        status = f"{status}, infeasible"
    if count > len(lines) - start - 1:
        msg = f"expected {counted(count, 'column')}, but the file ends early"
        raise ValueError(msg)
    values = _values(_pairs(lines[start + 1 : start + 1 + count]))
    return Solution(path=path, solver="HiGHS", status=status, values=values)


def _scip(path: str, lines: list[str]) -> Solution:
    status = ""
    entries = []
    for line in lines:
        if line.startswith("solution status:"):
            status = line.partition(":")[2].strip()
        elif line.startswith("no solution"):
            status = line.strip()
        elif not line.startswith(("objective value:", "#")):
            entries.append(line)
    values = _values(_pairs(entries))
    return Solution(path=path, solver="SCIP", status=status, values=values, sparse=True)


def _gurobi(path: str, lines: list[str]) -> Solution:
    values = _values(_pairs(line for line in lines if not line.startswith("#")))
    return Solution(path=path, solver="Gurobi", status="", values=values)


def _cbc(path: str, lines: list[str]) -> Solution:
    head = _CBC_HEAD.match(lines[0])
    assert head is not None
    entries: list[tuple[str, str]] = []
    last = -1
    for line in lines[1:]:
        if line.strip():
            words = _words(line.removeprefix("**"), 3, "number, column and value")
            number, name, value = _whole(words[0]), words[1], words[2]
            if number <= last:
                # `printingOptions all` writes the rows first.
                entries = []
            entries.append((name, value))
            last = number
    return Solution(
        path=path, solver="CBC", status=head[1], values=_values(entries), sparse=True
    )


def _glpk(path: str, lines: list[str]) -> Solution:
    status = lines[_find(lines, "Status:")]
    start = _find(lines, "   No. Column name")
    entries: list[tuple[str, str]] = []
    name = None
    for line in lines[start + 2 :]:
        if not line.strip():
            break
        rest: str | None = line
        if name is None:
            entry = _GLPK_ENTRY.match(line)
            if entry is None:
                msg = f"line {line.strip()!r}, expected number and column"
                raise ValueError(msg)
            name, rest = entry[2], entry[3]
        if rest is not None:
            # A star marks integer columns.
            words = _words(rest.replace("*", " ", 1), 1, f"the value of {name}")
            entries.append((name, words[0]))
            name = None
    return Solution(
        path=path,
        solver="GLPK",
        status=status.partition(":")[2].strip(),
        values=_values(entries),
    )


def _glpk_raw(path: str, lines: list[str]) -> Solution:
    words = _words(lines[_find(lines, "s ")], 5, "'s', kind, rows, columns and status")
    if words[1] != "mip":
        msg = "is a solution of the relaxation, without integer columns"
        raise InputError(msg, file=path)
    statuses = {"o": "optimal", "f": "feasible", "n": "infeasible", "u": "undefined"}
    columns = [
        _words(line, 3, "'j', number and value")
        for line in lines
        if line.startswith("j ")
    ]
    values = _values((number, value) for _, number, value, *_ in columns)
    return Solution(
        path=path,
        solver="GLPK",
        status=statuses.get(words[4], words[4]),
        values=values,
        numbered=True,
    )
