"""Linear programs as files that GLPK, CBC, SCIP, HiGHS and Gurobi read alike.

Readers differ in what they accept and, worse, in how they interpret a file. So

- every column is in the objective, with 0 if it costs nothing: all readers then
  number the columns as the program does, and know those that are in no row;
- every bound of a column is written, also 0, as defaults of integer columns differ;
- a row with two different sides is written as two rows;
- a row without columns is omitted if it holds, and keeps a 0 if it does not;
- section headers are spelled as all readers know them, and empty ones are omitted;
- lines and names are short, and names have only characters that all readers accept;
- numbers have all digits of a double (HiGHS's own LP writer keeps 15 of 17,
  OR-Tools' 6).
"""

from __future__ import annotations

import re
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hetopt.formulations.linear_program import LinearProgram, Terms

#: CBC reads names of up to 100 characters; rows may get a suffix.
LONGEST_NAME = 90
#: Most characters of a line; CBC's and old CPLEX's buffers are short.
_LONGEST_LINE = 200
_LONGEST_COMMENT = 160
_COMMENTS = {".lp": "\\", ".mps": "*"}
_OTHERS = re.compile(r"[^A-Za-z0-9_(),.]")
#: Names that LP readers take for a number or a word of the format.
_NO_NAME = re.compile(
    r"[0-9.]|e[0-9]|(free|inf(inity)?|st|end|bounds?|bin(ary|aries)?|"
    r"gen(erals?)?|int(egers?)?|min(im(um|i[sz]e))?|max(im(um|i[sz]e))?|"
    r"subject|such|s\.t\.|semi.*|sos.*)$",
    re.IGNORECASE,
)
#: Name of the objective row in files.
OBJECTIVE = "objective"


def column_names(program: LinearProgram) -> list[str]:
    """Return the columns' names in files: unique, short, of plain characters."""
    return _plain(program.names)


def comment(ending: str, head: Iterable[str]) -> list[str]:
    """Return lines as comments of a file with this ending: .lp or .mps."""
    return [f"{_COMMENTS[ending]} {_ascii(line)}" for line in head]


def lp_text(program: LinearProgram, head: Sequence[str]) -> str:
    """Return a program in CPLEX's LP format.

    Parameters
    ----------
    head
        Lines of the comment at the beginning.
    """
    names = column_names(program)
    lines = [*comment(".lp", head), "Minimize"]
    costs = dict(enumerate(program.cost))
    lines += _wrapped(f" {OBJECTIVE}:", _terms(costs, names))
    lines.append("Subject To")
    for name, terms, sense, side in _rows(program):
        lines += _wrapped(
            f" {name}:", [*_terms(terms, names), f"{sense} {number(side)}"]
        )
    lines.append("Bounds")
    binary, general = _integers(program)
    for j in range(len(names)):
        if j not in binary:
            lines.append(f" {_lp_bound(program.lower[j], names[j], program.upper[j])}")
    for section, columns in (("Binaries", binary), ("Generals", general)):
        if columns:
            lines += [section, *(f" {names[j]}" for j in sorted(columns))]
    return "\n".join([*lines, "End", ""])


def mps_text(program: LinearProgram, head: Sequence[str]) -> str:
    """Return a program in free MPS format; see ``lp_text``.

    Fixed MPS has only 8 characters for a name and 12 for a number.
    """
    names, rows = column_names(program), list(_rows(program))
    lines = [*comment(".mps", head), "NAME hetopt", "ROWS", f" N {OBJECTIVE}"]
    lines += [f" {_MPS_SENSE[sense]} {name}" for name, _, sense, _ in rows]
    entries: list[list[tuple[str, float]]] = [
        [(OBJECTIVE, cost)] for cost in program.cost
    ]
    for name, terms, _, _ in rows:
        for column, value in terms.items():
            entries[column].append((name, value))
    lines.append("COLUMNS")
    integer = False
    for j, own in enumerate(entries):
        if program.integer[j] != integer:
            integer = program.integer[j]
            lines.append(f" MARKER 'MARKER' {_MARKERS[integer]}")
        lines += [f" {names[j]} {row} {number(value)}" for row, value in own]
    if integer:
        lines.append(f" MARKER 'MARKER' {_MARKERS[False]}")
    lines.append("RHS")
    lines += [f" RHS {name} {number(side)}" for name, _, _, side in rows if side]
    lines.append("BOUNDS")
    for j, name in enumerate(names):
        lines += [
            f" {kind} BOUND {name}{value}"
            for kind, value in _mps_bounds(program.lower[j], program.upper[j])
        ]
    return "\n".join([*lines, "ENDATA", ""])


def number(value: float) -> str:
    """Return the shortest number that reads back as the same double."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


_MPS_SENSE = {"=": "E", "<=": "L", ">=": "G"}
_MARKERS = {True: "'INTORG'", False: "'INTEND'"}


def _plain(names: Iterable[str]) -> list[str]:
    """Return names that all readers accept, all of them different."""
    found: dict[str, None] = {}
    for position, name in enumerate(names):
        plain = _OTHERS.sub("_", name)
        if _NO_NAME.match(plain):
            plain = f"_{plain}"
        if len(plain) > LONGEST_NAME or plain in found or plain == OBJECTIVE:
            plain = f"{plain[: LONGEST_NAME - 12]}_{position}"
        found[plain] = None
    return list(found)


def _rows(program: LinearProgram) -> Iterator[tuple[str, Terms, str, float]]:
    """Yield name, terms, sense and side of every row of the file."""
    matrix = program.matrix()
    starts = matrix.starts.tolist()
    columns, values = matrix.columns.tolist(), matrix.values.tolist()
    for i, name in enumerate(_plain(program.row_names)):
        lower, upper = program.row_lower[i], program.row_upper[i]
        part = slice(starts[i], starts[i + 1])
        terms: Terms = dict(zip(columns[part], values[part], strict=True))
        if not terms:
            if lower <= 0 <= upper:
                continue
            terms = {0: 0.0}
        if lower == upper:
            yield name, terms, "=", upper
            continue
        both = lower > -inf and upper < inf
        if lower > -inf:
            yield f"{name}_least" if both else name, terms, ">=", lower
        if upper < inf:
            yield f"{name}_most" if both else name, terms, "<=", upper


def _integers(program: LinearProgram) -> tuple[set[int], set[int]]:
    """Return the binary columns, and the other integer ones."""
    integer = {j for j, whole in enumerate(program.integer) if whole}
    binary = {j for j in integer if (program.lower[j], program.upper[j]) == (0, 1)}
    return binary, integer - binary


def _terms(terms: Terms, names: Sequence[str]) -> list[str]:
    return [
        f"{'-' if value < 0 else '+'} {number(abs(value))} {names[column]}"
        for column, value in terms.items()
    ]


def _wrapped(start: str, words: Iterable[str]) -> Iterator[str]:
    """Yield lines that hold the words, none of them longer than the limit."""
    line = start
    for word in words:
        if len(line) + 1 + len(word) > _LONGEST_LINE:
            yield line
            line = " "
        line += f" {word}"
    yield line


def _lp_bound(lower: float, name: str, upper: float) -> str:
    if lower == upper:
        return f"{name} = {number(lower)}"
    if upper == inf:
        return f"{name} free" if lower == -inf else f"{name} >= {number(lower)}"
    least = "-inf" if lower == -inf else number(lower)
    return f"{least} <= {name} <= {number(upper)}"


def _mps_bounds(lower: float, upper: float) -> Iterator[tuple[str, str]]:
    """Yield kind and value of a column's bounds, the lower one first."""
    if lower == upper:
        yield "FX", f" {number(lower)}"
    elif (lower, upper) == (-inf, inf):
        yield "FR", ""
    else:
        yield ("MI", "") if lower == -inf else ("LO", f" {number(lower)}")
        yield ("PL", "") if upper == inf else ("UP", f" {number(upper)}")


def _ascii(line: str) -> str:
    """Return a line of a comment: printable ASCII, not too long."""
    plain = line.encode("ascii", "replace").decode()
    return "".join(c if c.isprintable() else " " for c in plain)[:_LONGEST_COMMENT]
