"""Sequences of several lengths: their shares, and the number of each in a step."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING, Any

from hetopt.base.faults import Fault
from hetopt.base.fields import whole
from hetopt.base.reading import MOST_TEXT_BYTES, read_text
from hetopt.base.words import counted, describe
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: Pairs of tokens of a sequence and the share of such sequences; ascending.
Lengths = tuple[tuple[int, float], ...]
#: Suffix and columns of a histogram's file.
HISTOGRAM_SUFFIX = ".csv"
COLUMNS = ("tokens", "count")
#: Of the field, for editors.
LENGTHS_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "object", "additionalProperties": {"type": "number"}},
        {"type": "string", "pattern": r"\.csv$"},
    ],
    "examples": [{"4096": 0.8, "32768": 0.2}, "lengths.csv"],
}
#: Most lengths of one problem: each has its own latency table.
MOST_LENGTHS = 16
#: Largest difference of the sum of shares from 1.
_TOLERANCE = 1e-6


def read_histogram(path: str | Path) -> dict[int, float]:
    """Read a CSV file ``tokens,count``; lines that begin with ``#`` are comments.

    Returns
    -------
    Tokens of a sequence -> share of the sequences.

    Raises
    ------
    InputError
        With the file and the line of the first mistake.
    """
    name = str(path)
    text = read_text(path, "a histogram of lengths", MOST_TEXT_BYTES)
    counts: dict[int, float] = {}
    header = False
    for where, cells in _lines(text, name):
        if not cells or cells[0].lstrip().startswith("#"):
            continue
        if not header:
            if tuple(cell.strip() for cell in cells) != COLUMNS:
                msg = f"is {','.join(cells)[:40]!r}, expected {','.join(COLUMNS)}"
                raise InputError(msg, file=name, line=where, field="columns")
            header = True
            continue
        tokens, count = _cells(cells, name, where)
        if tokens in counts:
            msg = f"is {tokens} a second time"
            raise InputError(msg, file=name, line=where, field="tokens")
        counts[tokens] = count
    total = sum(counts.values())
    if not total:
        raise InputError("has no sequences", file=name, field="count")
    return {tokens: count / total for tokens, count in counts.items() if count}


def _lines(text: str, file: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each line."""
    lines = csv.reader(io.StringIO(text))
    try:
        for cells in lines:
            yield lines.line_num, cells
    except csv.Error as error:
        msg = f"is not CSV: {error}"
        raise InputError(msg, file=file, line=lines.line_num) from None


def _cells(cells: list[str], file: str, line: int) -> tuple[int, float]:
    if len(cells) != len(COLUMNS):
        msg = f"has {counted(len(cells), 'cell')}, expected {','.join(COLUMNS)}"
        raise InputError(msg, file=file, line=line)
    try:
        tokens = whole(1)(int(cells[0]))
    except Fault as fault:
        raise InputError(fault.message, file=file, line=line, field="tokens") from None
    except ValueError:
        msg = f"is {cells[0][:40]!r}, expected a whole number of at least 1"
        raise InputError(msg, file=file, line=line, field="tokens") from None
    try:
        count = float(cells[1])
    except ValueError:
        count = math.nan
    if not (math.isfinite(count) and count >= 0):
        msg = f"is {cells[1][:40]!r}, expected a number of at least 0"
        raise InputError(msg, file=file, line=line, field="count")
    return tokens, count


def read_shares(value: Any) -> dict[int, float]:
    """Read a mapping from tokens of a sequence to the share of such sequences."""
    if not isinstance(value, dict) or not value:
        msg = (
            f"is {describe(value)}, expected shares such as {{4096: 0.8, 32768: 0.2}}, "
            f"or the path of a {HISTOGRAM_SUFFIX} file"
        )
        raise Fault(msg)
    shares: dict[int, float] = {}
    for key, share in value.items():
        if not (str(key).isascii() and str(key).isdigit()):
            raise Fault("is not a number of tokens, expected one such as 4096", key)
        tokens = whole(1)(int(key))
        if isinstance(share, bool) or not isinstance(share, int | float):
            raise Fault(f"is {describe(share)}, expected a share", key)
        if not 0 < share <= 1:
            msg = f"is {share:g}, expected a share above 0 and at most 1"
            raise Fault(msg, key)
        if tokens in shares:
            raise Fault("is given twice", key)
        shares[tokens] = float(share)
    return shares


def lengths_fault(lengths: Lengths, batch: int, seq_len: int) -> str | None:
    """Return what is wrong with shares of lengths; None if nothing is.

    Parameters
    ----------
    batch
        Sequences of a step.
    seq_len
        Expected tokens of the longest sequences.
    """
    if not 1 <= len(lengths) <= MOST_LENGTHS:
        return f"has {len(lengths)} lengths, expected 1 to {MOST_LENGTHS}"
    if not all(0 < share <= 1 for _, share in lengths):
        return "has a share that is not above 0 and at most 1"
    total = sum(share for _, share in lengths)
    if abs(total - 1) > _TOLERANCE:
        return f"has shares that add up to {total:g}, expected 1"
    longest = lengths[-1][0]
    if longest != seq_len:
        return f"has {longest} tokens at most, expected seq_len ({seq_len})"
    if longest not in sequences_of(lengths, batch):
        return (
            f"has a share of {lengths[-1][1]:g} for {longest} tokens, which is no "
            f"sequence of {batch}: raise global_batch, or leave that length out"
        )
    return None


def sequences_of(lengths: Lengths, batch: int) -> Mapping[int, int]:
    """Return the number of sequences of each length in a step, the longest first.

    They add up to the batch by the largest remainder method: each share of it is
    rounded down, and the lengths with the largest remainders get one more sequence, of
    equal ones the longer. Lengths without a sequence are left out.
    """
    total = sum(share for _, share in lengths)
    exact = [(tokens, share / total * batch) for tokens, share in lengths]
    # A share such as 0.3 of 10 is 3, even if its binary form is slightly less.
    whole = {tokens: math.floor(each + _TOLERANCE) for tokens, each in exact}
    most = sorted(exact, key=lambda one: (whole[one[0]] - one[1], -one[0]))
    for tokens, _ in most[: batch - sum(whole.values())]:
        whole[tokens] += 1
    return {
        tokens: whole[tokens] for tokens in sorted(whole, reverse=True) if whole[tokens]
    }
