"""Schedules as torch.distributed.pipelining loads them.

One row per pipeline rank; a cell is ``<stage><F|B><micro-batch>`` (B: the whole
backward pass), an empty cell is idle. hetopt's stages run F_1..F_W, B_1, F_(W+1), B_2,
... (MODEL.md section 4).
"""

from __future__ import annotations

import csv
import io
import re
from itertools import islice, pairwise, zip_longest
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.reading import read_text
from hetopt.words import describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def stage_row(stage: int, warmup: int, microbatches: int) -> list[str]:
    """Return the passes of one stage in order, stage and micro-batches from 0."""
    return list(_passes(stage, warmup, microbatches))


def schedule_text(warmups: Sequence[int], microbatches: int) -> str:
    """Return the rows of all stages; warm-ups may not rise downstream."""
    return "".join(
        ",".join(stage_row(stage, warmup, microbatches)) + "\n"
        for stage, warmup in enumerate(warmups)
    )


def read_schedule(path: Path) -> tuple[int, tuple[int, ...]]:
    """Return micro-batches and the warm-up count of every stage, at most that many.

    Raises
    ------
    InputError
        The file cannot be read, or its rows are not those of warm-up counts that
        never rise downstream; it names the row.
    """
    text = read_text(path, "a schedule")
    try:
        rows = [
            [cell.strip() for cell in row if cell.strip()]
            for row in csv.reader(io.StringIO(text, newline=""))
        ]
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}", file=str(path)) from error
    if not rows or not rows[0]:
        raise InputError("has no passes in its first row", file=str(path))
    microbatches = sum(1 for cell in rows[0] if "F" in cell)
    warmups = tuple(
        _warmup(row, stage, microbatches, str(path)) for stage, row in enumerate(rows)
    )
    for stage, (before, here) in enumerate(pairwise(warmups), start=1):
        if here > before:
            msg = (
                f"deadlocks: stage {stage} warms up with {here} forwards, stage "
                f"{stage - 1} before it with {before}"
            )
            raise InputError(msg, file=str(path), line=stage + 1)
    return microbatches, warmups


def _passes(stage: int, warmup: int, microbatches: int) -> Iterator[str]:
    first = min(warmup, microbatches)
    for number in range(first):
        yield f"{stage}F{number}"
    for number in range(microbatches):
        yield f"{stage}B{number}"
        if first + number < microbatches:
            yield f"{stage}F{first + number}"


def _warmup(row: list[str], stage: int, microbatches: int, file: str) -> int:
    """Return the forward passes before a row's first backward; check the rest."""
    for cell in row:
        match = re.fullmatch(r"([0-9]{1,9})([FB])([0-9]{1,9})", cell)
        if match is None or int(match[1]) != stage:
            msg = (
                f"{describe(cell)} in row {stage}, expected forward and backward "
                f"passes of stage {stage} alone, such as {stage}F0 and {stage}B0"
            )
            raise InputError(msg, file=file, line=stage + 1)
    warmup = next((place for place, cell in enumerate(row) if "B" in cell), 0)
    # One cell more than the row: the first row says how many passes all should have.
    expected = islice(_passes(stage, max(warmup, 1), microbatches), len(row) + 1)
    for place, (found, wanted) in enumerate(zip_longest(row, expected)):
        if found != wanted:
            msg = (
                f"cell {place + 1} of row {stage} is out of order, expected "
                f"{wanted or 'none'}: one forward, one backward of {microbatches} "
                "micro-batches after the warm-up"
            )
            raise InputError(msg, file=file, line=stage + 1)
    return warmup
