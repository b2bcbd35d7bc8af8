"""Shards of units as a forest sees them: numbers of their shape and of their work.

A shard is what one device computes: its tokens, heads and widths, and FLOPs, memory
traffic and their ratio as ``hetopt.cost.units`` counts them. Degrees are used only
through the shard, so that shards which coincide have equal features. HetAuto's Table 6
has features of whole models and degrees: they were less accurate
(docs/explanation/fidelity.md).

Most sizes are base-2 logarithms: a tree splits half-way between two values, which is
2048 for 1024 and 4096 tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.cost.forests.forest import Samples
from hetopt.cost.forests.trees import Settings
from hetopt.cost.profiles.units import place_columns
from hetopt.cost.shapes import (
    Floats,
    Ints,
    Shape,
    element_bytes,
    kv_width,
    query_width,
    vocab_shard,
)
from hetopt.cost.shard_shape import ATTENTION_CORE, MODEL_SIZES, ShardShape
from hetopt.cost.sources.roofline import ATTENTION_BACKWARD
from hetopt.cost.units import unit_operations, unit_parameters
from hetopt.problem.model.kinds import ATTENTION
from hetopt.problem.model.model import Model
from hetopt.problem.training.training import Training

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.cost.profiles.file import ProfileRow

#: Columns of ``attention`` that its core does not have.
_NOT_OF_CORE = (
    "weights",
    "dense_flops",
    "dense_bytes",
    "elementwise_bytes",
    "elementwise_backward_bytes",
)

#: Passes of a shard, which are the names of its curves.
PASSES = ("forward", "backward")

#: How the forest of a unit grows.
SETTINGS = Settings(trees=60, max_features=0.7, min_samples_leaf=3)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shards:
    """Shards of one unit.

    Attributes
    ----------
    unit
        Kind of unit.
    columns
        Numbers of every shard by name; (R,) each.
    """

    unit: str
    columns: Mapping[str, Floats]

    def column(self, name: str) -> Floats:
        """Return one column; (R,)."""
        return self.columns[name]

    def place(self) -> Floats:
        """Return logarithms of the columns on which work depends; (R, D)."""
        names = place_columns(self.unit)
        return np.log2(np.stack([self.column(name) for name in names], axis=1))

    def __len__(self) -> int:
        """Return the number of shards."""
        return len(self.column("tokens"))


def shards_of(unit: str, model: Model, training: Training, shape: Shape) -> Shards:
    """Return the shards of one unit of a model.

    Parameters
    ----------
    unit
        A unit kind, or ``attention-core``.
    """
    core = unit == ATTENTION_CORE
    work = unit_operations(model, training, ATTENTION if core else unit, shape)
    nothing = np.zeros(len(shape.microbatch))
    values: dict[str, Floats | Ints | float] = {
        "microbatch": shape.microbatch,
        "seq_len": training.seq_len,
        "hidden": model.hidden,
        "head_dim": model.head_dim,
        "cp": shape.cp,
        "element_bytes": element_bytes(training.precision),
        "fp16": training.precision == "fp16",
        "gated": model.gated,
        "tokens": shape.microbatch * training.seq_len / shape.cp,
        "query": query_width(model) / shape.tp,
        "kv": kv_width(model, shape.tp),
        "inner": model.ffn / shape.tp,
        "logits": vocab_shard(model, shape.tp),
        "weights": unit_parameters(model, ATTENTION if core else unit, shape.tp),
        "dense_flops": sum((part.flops for part in work.multiplications), nothing),
        "attention_flops": work.attention_flops,
        "dense_bytes": sum(
            (part.traffic_bytes for part in work.multiplications), nothing
        ),
        "attention_bytes": work.attention_bytes,
        "elementwise_bytes": work.elementwise_bytes,
        "elementwise_backward_bytes": work.elementwise_backward_bytes,
    }
    if core:
        values |= dict.fromkeys(_NOT_OF_CORE, 0.0)
    columns = {name: nothing + value for name, value in values.items()}
    return Shards(unit=unit, columns=columns)


def shapes_of(
    unit: str, model: Model, training: Training, shape: Shape
) -> list[ShardShape | None]:
    """Return the shards of one unit of a model as profiles state them.

    None for shards that profiles cannot state: of fp8, or of degrees that do not divide
    the model.
    """
    known: dict[str, Any] = {name: getattr(model, name) for name in MODEL_SIZES}
    known |= {"gated": model.gated, "dtype": training.precision}
    found: list[ShardShape | None] = []
    for row in zip(shape.microbatch, shape.cp, shape.tp, strict=True):
        b, cp, tp = map(int, row)
        known |= {"seq_len": training.seq_len, "microbatch": b, "cp": cp, "tp": tp}
        try:
            found.append(ShardShape(unit=unit, **known))
        except ValueError:
            found.append(None)
    return found


def shards_of_rows(unit: str, rows: Sequence[ProfileRow]) -> Shards:
    """Return the shards of rows of a profile, all of one unit, in their order."""
    columns: dict[str, Floats] = {}
    alike: dict[tuple[object, ...], list[int]] = {}
    for index, row in enumerate(rows):
        fields = ("gated", "dtype", *MODEL_SIZES, "seq_len")
        alike.setdefault(tuple(getattr(row, name) for name in fields), []).append(index)
    for indices in alike.values():
        row = rows[indices[0]]
        model = Model(
            name="profiled",
            layers=1,
            gated=row.gated,
            norm="rms" if row.gated else "layer",
            **{name: getattr(row, name) for name in MODEL_SIZES},
        )
        training = Training(
            global_batch=1,
            seq_len=row.seq_len,
            precision=row.dtype,  # type: ignore[arg-type]  # one of the three
        )
        own = [rows[index] for index in indices]
        shape = Shape.of((row.microbatch, row.cp, row.tp) for row in own)
        part = shards_of(unit, model, training, shape)
        for name, values in part.columns.items():
            columns.setdefault(name, np.empty(len(rows)))[indices] = values
    return Shards(unit=unit, columns=columns)


def samples_of(shards: Shards) -> list[Samples]:
    """Return the forward and the backward passes of R shards."""
    return [
        Samples(
            terms=_work_terms(shards, backward=bool(number)),
            features=_features(shards),
            names=np.full(len(shards), name),
        )
        for number, name in enumerate(PASSES)
    ]


def known_samples(unit: str, rows: Sequence[ProfileRow]) -> tuple[Samples, Floats]:
    """Return both passes of R rows of a profile, and their seconds; (2 R,).

    Parameters
    ----------
    rows
        Rows of one unit that have times.
    """
    times = [[row.forward_s for row in rows], [row.backward_s for row in rows]]
    samples = Samples.joined(samples_of(shards_of_rows(unit, rows)))
    return samples, np.array(times, dtype=np.float64).ravel()


def _work_terms(shards: Shards, *, backward: bool) -> Floats:
    """Return the terms of a linear cost model; (R, 6).

    They are FLOPs of matrix multiplications and of the attention core, its scores
    (their exponentials take as long for narrow heads as for wide ones), bytes moved,
    weights (their gradient is written even for few tokens) and 1.
    """
    dense, attention, moved = flops_and_bytes(shards, backward=backward)
    return np.stack(
        [
            dense,
            attention,
            _scores(shards),
            moved,
            shards.column("weights"),
            np.ones(len(dense)),
        ],
        axis=1,
    )


def flops_and_bytes(shards: Shards, *, backward: bool) -> tuple[Floats, Floats, Floats]:
    """Return the FLOPs of multiplications and of attention cores, and bytes; (R,)."""
    dense, attention = shards.column("dense_flops"), shards.column("attention_flops")
    moved = shards.column("dense_bytes") + shards.column("attention_bytes")
    if backward:
        elementwise = shards.column("elementwise_backward_bytes")
        return 2 * dense, ATTENTION_BACKWARD * attention, 2 * moved + elementwise
    return dense, attention, moved + shards.column("elementwise_bytes")


def _log(values: Floats) -> Floats:
    """Return base-2 logarithms; values below 1, such as no work, give 0."""
    return np.log2(np.maximum(values, 1.0))


def _scores(shards: Shards) -> Floats:
    """Return the number of scores (products of query and key) of a shard; (R,)."""
    # QK^T and PV are 2 FLOPs each per score and element of a head.
    return shards.column("attention_flops") / (4 * shards.column("head_dim"))


def _features(shards: Shards) -> Floats:
    """Return the features of R shards; (R, F)."""
    flops = shards.column("dense_flops") + shards.column("attention_flops")
    moved = (
        shards.column("dense_bytes")
        + shards.column("attention_bytes")
        + shards.column("elementwise_bytes")
    )
    sizes = ("tokens", "seq_len", "microbatch", "hidden", "head_dim", "query", "kv")
    work = (
        "weights",
        "dense_flops",
        "attention_flops",
        "dense_bytes",
        "elementwise_bytes",
    )
    columns = [
        *(_log(shards.column(name)) for name in (*sizes, "inner", "logits", *work)),
        _log(flops),
        _log(moved),
        np.log2(np.maximum(flops, 1.0) / moved),
        _log(_scores(shards)),
        # The split of a sequence matters only in attention.
        np.where(shards.column("attention_flops") > 0, shards.column("cp"), 0.0),
        shards.column("attention_flops") / np.maximum(flops, 1.0),
        shards.column("element_bytes"),
        shards.column("fp16"),
        shards.column("gated"),
    ]
    return np.stack(columns, axis=1)
