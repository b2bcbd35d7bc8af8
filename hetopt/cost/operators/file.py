"""Operator profiles: CSV files with the times of single kernels.

A file starts with header lines ``# key: value``:

    schema          hetopt-operators/1
    accelerator     its name in the catalogue, or free text; in files without it,
                    ``device`` is that name
    device, driver, libraries, clocks, date
                    what was measured, with what and when
    kind            measured, published or modelled
    source          who measured it, or the formula
    licence         under which the numbers may be used
    peak_flops, memory_bandwidth
                    of the device, with units; needed if it is not in the catalogue
    notes           anything else

followed by one CSV table:

    op              matmul: (m, k) x (k, n); group_matmul: ``groups`` of them (experts);
                    sdp_fwd, sdp_bwd: the fused, causal attention core; memory: reads
                    and writes of element-wise kernels
    dtype           bf16 or fp16
    m, k, n, groups, layout
                    for multiplications; layout is TN (forward), NN (gradient of the
                    input) or NT (gradient of the weight)
    batch, seq, heads, kv_heads, qk_dim, v_dim
                    for the attention core
    bytes           bytes that a memory operator moves
    time_us         in microseconds
    kernel          optional, for memory operators: rmsnorm, layernorm, rope, swiglu,
                    gelu, add or embedding; named kernels are predicted separately,
                    others from the rows without a name. ``n``, optional too, is then
                    the width of a token's row: the output of a norm, a sum, an
                    activation or a look-up, or the queries and keys that are rotated
    output          optional, for multiplications: bf16, fp16 or fp32; if it is not
                    given, NT adds to an fp32 buffer and the others write ``dtype``
    model           optional: the model whose layer the operator is part of

Cells that an operator does not need are empty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, get_args

from hetopt.base.files import write_text
from hetopt.base.reading import read_text
from hetopt.cost.pieces.operations import MemoryKernel
from hetopt.cost.profiles.csv_text import (
    append_rows,
    csv_text,
    parse_csv_text,
    whole_number,
)
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OPERATORS_SCHEMA = "hetopt-operators/1"
MATMUL, GROUP_MATMUL = "matmul", "group_matmul"
SDP_FORWARD, SDP_BACKWARD = "sdp_fwd", "sdp_bwd"
MEMORY = "memory"

#: Columns that an operator must fill, besides op, dtype and time_us.
SIZES = {
    MATMUL: ("m", "k", "n", "layout"),
    GROUP_MATMUL: ("m", "k", "n", "groups", "layout"),
    SDP_FORWARD: ("batch", "seq", "heads", "kv_heads", "qk_dim", "v_dim"),
    SDP_BACKWARD: ("batch", "seq", "heads", "kv_heads", "qk_dim", "v_dim"),
    MEMORY: ("bytes",),
}
_COUNTS = tuple(
    dict.fromkeys(
        name for names in SIZES.values() for name in names if name != "layout"
    )
)
LAYOUTS = ("TN", "NN", "NT")
_WORDS = {
    "op": tuple(SIZES),
    "dtype": ("bf16", "fp16"),
    "layout": LAYOUTS,
    "output": ("bf16", "fp16", "fp32"),
    "kernel": get_args(MemoryKernel),
}
_KNOWN_VALUES = {
    "schema": (OPERATORS_SCHEMA,),
    "kind": ("measured", "published", "modelled"),
}
REQUIRED = ("schema", "kind", "source", "licence")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRow:
    """One kernel and its time; attributes are the CSV's columns.

    Raises
    ------
    ValueError
        A size that the operator needs is missing or below 1, a word is unknown, or the
        time is not positive and finite; the message is ``column: what is wrong``.
    """

    op: str
    dtype: str
    m: int | None = None
    k: int | None = None
    n: int | None = None
    groups: int | None = None
    layout: str | None = None
    batch: int | None = None
    seq: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    qk_dim: int | None = None
    v_dim: int | None = None
    bytes: int | None = None
    time_us: float
    output: str | None = None
    model: str | None = None
    kernel: str | None = None

    def __post_init__(self) -> None:
        for name, known in _WORDS.items():
            value = getattr(self, name)
            if value is not None and value not in known:
                msg = f"{name}: {value!r}, expected {', '.join(known)}"
                raise ValueError(msg)
        for name in SIZES[self.op]:
            value = getattr(self, name)
            if value is None:
                msg = f"{name}: missing, {self.op} needs it"
                raise ValueError(msg)
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                msg = f"{name}: {value}, expected at least 1"
                raise ValueError(msg)
        if self.kernel is not None and self.op != MEMORY:
            msg = f"kernel: {self.kernel!r}, but only {MEMORY} operators have one"
            raise ValueError(msg)
        if not (math.isfinite(self.time_us) and self.time_us > 0):
            msg = f"time_us: {self.time_us}, expected microseconds above 0"
            raise ValueError(msg)

    @property
    def output_bytes(self) -> int:
        """Bytes per element that a multiplication writes, and reads if it adds."""
        if self.output is None:
            return 8 if self.layout == "NT" else 2
        return (4 if self.output == "fp32" else 2) * (2 if self.layout == "NT" else 1)


_OPTIONAL = ("output", "model", "kernel")
COLUMNS = tuple(item.name for item in fields(OperatorRow) if item.name not in _OPTIONAL)

#: Columns of the files that hetopt writes, in their order.
WRITTEN = (*COLUMNS, *_OPTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorProfile:
    """Content of an operator profile.

    Attributes
    ----------
    header
        Values by key; at least those of ``REQUIRED``.
    rows
        Kernels in the file's order.
    """

    header: Mapping[str, str]
    rows: tuple[OperatorRow, ...]


def parse_operators(text: str, name: str) -> OperatorProfile:
    """Return the operator profile in ``text``.

    Parameters
    ----------
    name
        Name of the file in error messages.

    Raises
    ------
    InputError
        A line is malformed; the message has file, line and column.
    """
    found = parse_csv_text(
        text,
        name,
        columns=COLUMNS,
        optional_columns=_OPTIONAL,
        required=REQUIRED,
        known_values=_KNOWN_VALUES,
    )
    if not accelerator_of(found.header):
        msg = "the header lacks it, expected a line '# accelerator: ...'"
        raise InputError(msg, file=name, field="accelerator")
    rows = []
    for number, cells in found.rows:
        try:
            values = {column: _cell(column, text) for column, text in cells.items()}
            rows.append(OperatorRow(**values))  # type: ignore[arg-type]
        except ValueError as error:
            field, _, message = str(error).partition(": ")
            raise InputError(message, file=name, line=number, field=field) from error
    return OperatorProfile(header=found.header, rows=tuple(rows))


def accelerator_of(header: Mapping[str, str]) -> str:
    """Return the name of the accelerator that a header states; empty if none."""
    return header.get("accelerator") or header.get("device", "")


def read_operators(path: str) -> OperatorProfile:
    """Read and validate an operator profile; raises as ``parse_operators``."""
    return parse_operators(read_text(path, "an operator profile"), path)


def write_operators(
    path: str, header: Mapping[str, str], rows: Iterable[OperatorRow]
) -> None:
    """Write a whole operator profile, under a temporary name first.

    Raises
    ------
    InputError
        The file cannot be written; an existing one is then unchanged.
    """
    write_text(path, csv_text(header, WRITTEN, map(_cells, rows)))


def append_operators(path: str, rows: Iterable[OperatorRow]) -> None:
    """Append rows, in one write, to a profile that ``write_operators`` created.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    append_rows(path, map(_cells, rows))


def _cells(row: OperatorRow) -> tuple[object, ...]:
    return tuple(getattr(row, column) for column in WRITTEN)


def _cell(column: str, text: str) -> str | int | float | None:
    """Return a cell's value; a ValueError's message is ``column: what is wrong``."""
    if column in ("op", "dtype"):
        if text not in _WORDS[column]:
            msg = f"{column}: {text!r}, expected {', '.join(_WORDS[column])}"
            raise ValueError(msg)
        return text
    if column == "time_us":
        try:
            return float(text)
        except ValueError:
            msg = f"{column}: {text!r} is not a number of microseconds"
            raise ValueError(msg) from None
    if not text:
        return None
    return text if column in (*_WORDS, "model") else whole_number(column, text)
