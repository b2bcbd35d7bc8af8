"""Latency profiles: CSV files with the compute times of a model's shards.

A profile is UTF-8 text. It starts with header lines ``# key: value``:

    schema          hetopt-profile/1
    kind            measured, published or modelled
    accelerator     a name from the catalogue, or free text
    device, driver, libraries, clocks, date
                    what was measured, with what and when (measured profiles)
    source          formula or paper (modelled and published profiles)
    communication   included: times of all units include tensor-parallel communication,
                    which hetopt adds at degrees that have no rows;
                    excluded (default): they do not
    optimizer_s_per_parameter
                    seconds of the optimizer's step per parameter that it updates
    notes           anything else

followed by one CSV table with the columns of ``COLUMNS``:

    unit            layer, attention, mlp-up, mlp-down, embedding, head, or
                    attention-core: only the fused attention, which selective
                    recomputation repeats
    gated           1: SwiGLU and RMSNorm (Llama); 0: GELU, LayerNorm, biases (GPT)
    dtype           bf16, fp16 or fp32
    hidden, heads, kv_heads, head_dim, ffn, vocab
                    of the whole model
    cp, tp          degrees whose shard was timed
    microbatch      sequences
    seq_len         tokens of a whole sequence
    forward_s, backward_s
                    medians in seconds, without recomputation; empty unless ok
    forward_spread_s, backward_spread_s
                    interquartile range over the repetitions; empty if unknown
    repetitions     0 if nothing was timed
    status          ok or oom

Times are those of the computation of one device's shard, without communication unless
``communication`` is included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from statistics import quantiles
from typing import TYPE_CHECKING, Literal, get_args

from hetopt.base.files import write_text
from hetopt.base.reading import read_text
from hetopt.cost.profiles.csv_text import (
    append_rows,
    csv_text,
    parse_csv_text,
    whole_number,
)
from hetopt.cost.shard_shape import ShardShape
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Status = Literal["ok", "oom"]

PROFILE_SCHEMA = "hetopt-profile/1"
KINDS = ("measured", "published", "modelled")
REQUIRED = ("schema", "kind", "accelerator")
INCLUDED, EXCLUDED = "included", "excluded"
COMMUNICATION = (INCLUDED, EXCLUDED)
OPTIMIZER = "optimizer_s_per_parameter"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow(ShardShape):
    """One row of a profile: a shard and its times.

    Raises
    ------
    ValueError
        A time is missing although the status is ``ok``, given although it is not, or
        not positive and finite; or another column is invalid.
    """

    forward_s: float | None
    backward_s: float | None
    forward_spread_s: float | None
    backward_spread_s: float | None
    repetitions: int
    status: Status

    def __post_init__(self) -> None:
        # super() without arguments does not work in a slotted dataclass.
        ShardShape.__post_init__(self)
        if self.status not in get_args(Status):
            msg = f"status: {self.status!r}, expected {', '.join(get_args(Status))}"
            raise ValueError(msg)
        if self.repetitions < 0:
            msg = f"repetitions: {self.repetitions}, expected at least 0"
            raise ValueError(msg)
        for name in TIMES:
            value = getattr(self, name)
            if self.status != "ok":
                if value is not None:
                    msg = f"{name}: {value}, expected nothing with status {self.status}"
                    raise ValueError(msg)
            elif value is None:
                if name not in SPREADS:
                    msg = f"{name}: missing, expected seconds with status ok"
                    raise ValueError(msg)
            elif not math.isfinite(value) or value < 0:
                msg = f"{name}: {value}, expected seconds"
                raise ValueError(msg)
            elif value == 0 and name not in SPREADS:
                msg = f"{name}: 0, expected seconds above 0"
                raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Content of a profile.

    Attributes
    ----------
    header
        Values by key, in the file's order; at least those of ``REQUIRED``.
    rows
        Shards with their times, in the file's order.
    """

    header: Mapping[str, str]
    rows: tuple[ProfileRow, ...]

    @property
    def communicates(self) -> bool:
        """Whether times include tensor-parallel communication."""
        return self.header.get("communication") == INCLUDED

    @property
    def optimizer_s_per_parameter(self) -> float | None:
        """Optimizer's time per parameter; None if it was not measured."""
        given = self.header.get(OPTIMIZER)
        return None if given is None else float(given)


_KNOWN_VALUES = {
    "schema": (PROFILE_SCHEMA,),
    "kind": KINDS,
    "communication": COMMUNICATION,
}
COLUMNS = tuple(field.name for field in fields(ProfileRow))
SPREADS = ("forward_spread_s", "backward_spread_s")
TIMES = ("forward_s", "backward_s", *SPREADS)


def interquartile_range(values: Sequence[float]) -> float:
    """Return the distance between the quartiles, interpolated inside the sample."""
    low, _, high = quantiles(values, n=4, method="inclusive")
    return high - low


def read_profile(path: str) -> Profile:
    """Read and validate a profile.

    Raises
    ------
    InputError
        The file cannot be read, or a line is malformed; the message has file, line and
        column.
    """
    return parse_profile(read_text(path, "a profile"), path)


def parse_profile(text: str, name: str) -> Profile:
    """Return the profile in ``text``; see ``read_profile``.

    Parameters
    ----------
    name
        Name of the file in error messages.
    """
    found = parse_csv_text(
        text, name, columns=COLUMNS, required=REQUIRED, known_values=_KNOWN_VALUES
    )
    seconds = found.header.get(OPTIMIZER)
    if seconds is not None and not _is_duration(seconds):
        msg = f"{seconds!r}, expected seconds above 0"
        raise InputError(msg, file=name, field=OPTIMIZER)
    rows = tuple(_parse_row(cells, name, number) for number, cells in found.rows)
    return Profile(header=found.header, rows=rows)


def write_profile(path: str, profile: Profile) -> None:
    """Write a whole profile, under a temporary name first.

    Raises
    ------
    InputError
        The file cannot be written; an existing one is then unchanged.
    """
    write_text(path, profile_text(profile.header, profile.rows))


def append_row(path: str, row: ProfileRow) -> None:
    """Append one row to a profile, in one write.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    append_rows(path, (_cells(row),))


def profile_text(header: Mapping[str, str], rows: Iterable[ProfileRow]) -> str:
    """Return the text of a profile, with each header value on one line."""
    return csv_text(header, COLUMNS, map(_cells, rows))


def _cells(row: ProfileRow) -> tuple[object, ...]:
    return tuple(getattr(row, column) for column in COLUMNS)


def _is_duration(text: str) -> bool:
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


def _parse_row(given: Mapping[str, str], name: str, number: int) -> ProfileRow:
    try:
        values = {column: _parse_cell(column, text) for column, text in given.items()}
        return ProfileRow(**values)  # type: ignore[arg-type]
    except ValueError as error:
        field, _, message = str(error).partition(": ")
        raise InputError(message, file=name, line=number, field=field) from error


def _parse_cell(column: str, text: str) -> str | int | float | None:
    """Return a cell's value; a ValueError's message is ``column: what is wrong``."""
    if column in ("unit", "dtype", "status"):
        return text
    if column in TIMES:
        if not text:
            return None
        try:
            return float(text)
        except ValueError:
            msg = f"{column}: {text!r} is not a number of seconds"
            raise ValueError(msg) from None
    if column == "gated" and text not in ("0", "1"):
        msg = f"{column}: {text!r}, expected 0 or 1"
        raise ValueError(msg)
    if column == "gated":
        return text == "1"
    return whole_number(column, text)
