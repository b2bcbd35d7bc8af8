"""Operators that vidur measured: ``data/profiling/compute/<device>/**/mlp.csv``.

Each file has one model's layer, forward, in fp16: per tensor-parallel degree and
number of tokens the times of its ten operators, in milliseconds; medians are read.
Four are multiplications, six element-wise kernels, with the bytes that hetopt counts
for them. Attention (``attention.csv``, kernels for inference) is left out: training
needs the core's backward pass.

The files do not state a layer's norm: RMSNorm is assumed with a gated MLP, otherwise
LayerNorm, as in the models that vidur measured. A layer whose second norm was not
measured runs attention and MLP in parallel (phi-2): its ``add`` sums both and the
residual.

vidur measures multiples of 32 tokens. Only 128, 256, 512 and multiples of 1024 are
read: the others add little information, and a forest would grow slowly.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.base.reading import MOST_TEXT_BYTES, decoded, read_bytes
from hetopt.cost.operators.file import MATMUL, MEMORY, OperatorRow
from hetopt.cost.profiles.csv_text import whole_number
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hetopt.cost.pieces.operations import MemoryKernel

NOTES = (
    "forward operators of layers and embedding look-ups, attention left out; bytes of "
    "memory operators are what hetopt counts for them"
)
_FILE = "mlp.csv"
_WHAT = "a profile of vidur"
_DTYPE, _ELEMENT_BYTES = "fp16", 2
_FEW_TOKENS, _STEP = (128, 256, 512), 1024
_SIZES = {
    "heads": "n_head",
    "kv_heads": "n_kv_head",
    "hidden": "n_embd",
    "ffn": "n_expanded_embd",
    "tokens": "num_tokens",
    "tp": "num_tensor_parallel_workers",
}
_GATED = "use_gated_mlp"
_SECOND_NORM = "post_attention_layernorm"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """The layer that a line of a file was measured for; sizes of the whole model.

    Attributes
    ----------
    sums
        Number of sums of two tensors in its ``add``.
    """

    heads: int
    kv_heads: int
    hidden: int
    ffn: int
    tokens: int
    tp: int
    gated: bool
    sums: int

    @property
    def query(self) -> int:
        """Width of one device's queries."""
        return self.hidden // self.tp

    @property
    def kv(self) -> int:
        """Width of one device's keys; at least one head."""
        return max(1, self.kv_heads // self.tp) * (self.hidden // self.heads)

    @property
    def multiplications(self) -> Mapping[str, tuple[int, int]]:
        """(k, n) by vidur's name."""
        ffn = self.ffn // self.tp
        return {
            "attn_pre_proj": (self.hidden, self.query + 2 * self.kv),
            "attn_post_proj": (self.query, self.hidden),
            "mlp_up_proj": (self.hidden, (1 + self.gated) * ffn),
            "mlp_down_proj": (ffn, self.hidden),
        }

    @property
    def elementwise(self) -> Mapping[str, tuple[MemoryKernel, int, int]]:
        """By vidur's name: kernel, width, elements per token read and written."""
        norm: MemoryKernel = "rmsnorm" if self.gated else "layernorm"
        rotated, inner = self.query + self.kv, self.ffn // self.tp
        return {
            "input_layernorm": (norm, self.hidden, 2 * self.hidden),
            _SECOND_NORM: (norm, self.hidden, 2 * self.hidden),
            "attn_rope": ("rope", rotated, 2 * rotated),
            "mlp_act": ("swiglu", inner, 3 * inner)
            if self.gated
            else ("gelu", inner, 2 * inner),
            "add": ("add", self.hidden, 3 * self.sums * self.hidden),
            "emb": ("embedding", self.hidden, 2 * self.hidden),
        }


def read_vidur(folder: str, models: Sequence[str] | None = None) -> list[OperatorRow]:
    """Read the operators of a device's folder, or of one model's file.

    Parameters
    ----------
    folder
        ``data/profiling/compute/<device>``, a folder inside it, or an ``mlp.csv``.
    models
        Names of the models' folders to read; all if None.

    Raises
    ------
    InputError
        There is no such file, or a line is malformed; messages have file, line, column.
    """
    path = Path(folder)
    files = [path] if path.is_file() else sorted(path.rglob(_FILE))
    if not files:
        msg = f"has no {_FILE}, expected vidur's data/profiling/compute/<device>"
        raise InputError(msg, file=folder)
    found = {file: file.absolute().parent.name for file in files}
    for name in models or ():
        if name not in found.values():
            known = ", ".join(dict.fromkeys(found.values()))
            raise InputError(f"has no model {name!r}; it has {known}", file=folder)
    rows = [
        row
        for file, model in found.items()
        if models is None or model in models
        for row in _rows_of_file(str(file), model)
    ]
    if not rows:
        kept = ", ".join(map(str, _FEW_TOKENS))
        msg = f"has no line of {kept} or a multiple of {_STEP} tokens"
        raise InputError(msg, file=folder, field=_SIZES["tokens"])
    return rows


def _rows_of_file(path: str, model: str) -> Iterator[OperatorRow]:
    text = decoded(read_bytes(path, _WHAT, MOST_TEXT_BYTES), path, _WHAT)
    lines = csv.DictReader(io.StringIO(text))
    given = lines.fieldnames or ()
    for column in (*_SIZES.values(), _GATED, *map(_column, _always())):
        if column not in given:
            msg = "this column is missing, expected a profile of vidur"
            raise InputError(msg, file=path, line=1, field=column)
    try:
        for cells in lines:
            try:
                yield from _rows(_layer(cells), cells, model)
            except ValueError as error:
                field, _, message = str(error).partition(": ")
                line = lines.line_num
                raise InputError(message, file=path, line=line, field=field) from error
    except csv.Error as error:
        line = lines.line_num
        raise InputError(f"is not CSV: {error}", file=path, line=line) from error


def _always() -> tuple[str, ...]:
    """Return the operators that every layer has; phi-2 lacks the second norm."""
    return "attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj"


def _column(operator: str) -> str:
    return f"time_stats.{operator}.median"


def _layer(cells: Mapping[str, str | None]) -> _Layer:
    """Return a line's layer; a ValueError's message is ``column: what is wrong``."""
    sizes = {}
    for name, column in _SIZES.items():
        sizes[name] = whole_number(column, cells[column] or "")
        if sizes[name] < 1:
            raise ValueError(f"{column}: {sizes[name]}, expected at least 1")
    gated = cells[_GATED]
    if gated not in ("True", "False"):
        raise ValueError(f"{_GATED}: {gated!r}, expected True or False")
    for whole, part in (("hidden", "heads"), ("heads", "tp"), ("ffn", "tp")):
        if sizes[whole] % sizes[part]:
            msg = (
                f"{_SIZES[part]}: {sizes[part]} does not divide {_SIZES[whole]} "
                f"{sizes[whole]}"
            )
            raise ValueError(msg)
    second = cells.get(_column(_SECOND_NORM))
    return _Layer(gated=gated == "True", sums=1 if second else 2, **sizes)


def _rows(
    layer: _Layer, cells: Mapping[str, str | None], model: str
) -> Iterator[OperatorRow]:
    """Yield a line's operators; a ValueError's message is ``column: what is wrong``."""
    if layer.tokens % _STEP and layer.tokens not in _FEW_TOKENS:
        return
    for operator, (k, n) in layer.multiplications.items():
        time_us = _time_us(operator, cells)
        if time_us is not None:
            yield OperatorRow(
                op=MATMUL,
                dtype=_DTYPE,
                m=layer.tokens,
                k=k,
                n=n,
                groups=1,
                layout="TN",
                time_us=time_us,
                model=model,
            )
    for operator, (kernel, width, elements) in layer.elementwise.items():
        time_us = _time_us(operator, cells)
        if time_us is not None:
            yield OperatorRow(
                op=MEMORY,
                dtype=_DTYPE,
                n=width,
                bytes=_ELEMENT_BYTES * layer.tokens * elements,
                time_us=time_us,
                model=model,
                kernel=kernel,
            )


def _time_us(operator: str, cells: Mapping[str, str | None]) -> float | None:
    """Return a median in microseconds; None if the operator was not measured."""
    column = _column(operator)
    text = cells.get(column)
    if not text:
        return None
    try:
        time_ms = float(text)
    except ValueError:
        raise ValueError(f"{column}: {text!r} is not a number of ms") from None
    if not (math.isfinite(time_ms) and time_ms > 0):
        msg = f"{column}: {text}, expected ms above 0, or nothing if not measured"
        raise ValueError(msg)
    return float(f"{time_ms * 1e3:.6g}")
