"""Latencies of a cluster from its profile: measured times, else a forest's predictions.

A shard that was profiled has its measured time; the forest predicts all others. Times
that a profile lacks altogether are derived:

embedding, head     from the roofline of the cluster's accelerator, if the profile has
                    no such rows (HetAuto, section 4.2: "not requiring profiling")
layer               the sum of its three blocks, if only those were profiled
one of the blocks   its share of the layer in the roofline, if only layers were
sliding windows     the time without a window, times the ratio of both in the roofline
attention core      from ``attention-core`` rows, never more than the unit it is part
                    of; without such rows its share of the unit in the roofline
weight gradients    their share of the backward pass in the roofline
communication       if profiled times include that of tensor parallelism, they do so at
                    the degrees that were profiled; at others it is added

bf16 and fp16 take equally long on the devices we know of, so forests of both are
trained on rows of both (the type is a feature); fp32 only on rows of fp32.
"""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from hetopt.cost.forests.kept import Lesson, predicted_s
from hetopt.cost.profiles.file import Profile, ProfileRow, parse_profile
from hetopt.cost.profiles.units import place_columns, shard_key
from hetopt.cost.shapes import Floats, Shape
from hetopt.cost.shard_shape import ATTENTION_CORE, DTYPES
from hetopt.cost.sources.features import (
    SETTINGS,
    Shards,
    known_samples,
    samples_of,
    shapes_of,
    shards_of,
    shards_of_rows,
)
from hetopt.cost.sources.roofline import Roofline
from hetopt.cost.sources.source import ShardQuery, ShardTimes, Sizes
from hetopt.errors import InputError
from hetopt.problem.model.kinds import (
    ATTENTION,
    BLOCKS,
    END_KINDS,
    LAYER,
    WITHOUT_WINDOW,
)
from hetopt.problem.model.model import Model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from hetopt.cost.table.table import SourceKind
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.training.training import Training

#: A shape is outside a profile if every profiled shape differs from it by more than
#: this factor in some size, even if each size is within its range.
FAR = 2.0

#: What measures layers, as errors say it.
MEASURE_LAYERS = "measure layers with hetopt profile --for PROBLEM"

#: Names of columns in warnings.
_NAMES = {
    "tokens": "tokens per device",
    "hidden": "hidden size",
    "microbatch": "micro-batch",
    "seq_len": "sequence length",
    "query": "width of all heads per device",
    "inner": "ffn per device",
    "logits": "vocabulary per device",
    "gated": "gated (1: as in Llama, 0: as in GPT)",
}
_APART = "factor from the nearest shape"


class ForestSource:
    """Latency source with forests of one profile."""

    def __init__(self, text: str, name: str, *, cache: Path | None = None) -> None:
        """Read a profile.

        Parameters
        ----------
        text
            Content of the profile.
        name
            Its name in errors and warnings.
        cache
            Folder of forests and predictions; the user's cache by default.

        Raises
        ------
        InputError
            The profile is malformed; the message has file, line and column.
        """
        self.name = name
        self.profile: Profile = parse_profile(text, name)
        self._text = text
        self._cache = cache
        self._rows: dict[tuple[str, bool], list[ProfileRow]] = {}
        for row in self.profile.rows:
            if row.status == "ok":
                key = (row.unit, row.dtype == "fp32")
                self._rows.setdefault(key, []).append(row)
        self._measured = {
            shard_key(row): (row.forward_s, row.backward_s)
            for rows in self._rows.values()
            for row in rows
        }

    def source_kind(self, cluster: Cluster) -> SourceKind:
        """Return the profile's kind."""
        del cluster
        return cast("SourceKind", self.profile.header["kind"])

    def lacks(
        self, model: Model, training: Training, kinds: tuple[str, ...]
    ) -> str | None:
        """Return why the profile does not cover a model's units; None if it does."""
        reason = not_covered(model, training)
        if reason:
            return reason
        fp32 = training.precision == "fp32"
        if not any(key[1] == fp32 for key in self._rows):
            dtypes = sorted({r.dtype for rows in self._rows.values() for r in rows})
            write = f"write training: {{precision: {dtypes[0]}}}, or " if dtypes else ""
            return f"has no {training.precision} rows: {write}{MEASURE_LAYERS}"
        for kind in kinds:
            if kind not in END_KINDS and not self._parts(kind, fp32):
                what = f"{training.precision} rows of unit {kind!r}"
                return f"has no {what}: {MEASURE_LAYERS}"
        return None

    def shard_times(self, query: ShardQuery) -> ShardTimes:
        """Return the compute times of a query.

        Raises
        ------
        InputError
            The profile does not cover the model; see ``lacks``.
        """
        model, training, shape = query.model, query.training, query.shape
        kinds = query.kinds
        reason = self.lacks(model, training, kinds)
        if reason is not None:
            raise InputError(reason, file=self.name)
        fp32 = training.precision == "fp32"
        parts = {kind: self._parts(kind, fp32) for kind in kinds}
        needed = dict.fromkeys(unit for units in parts.values() for unit in units)
        if (ATTENTION_CORE, fp32) in self._rows:
            needed[ATTENTION_CORE] = None
        seconds = self._seconds(tuple(needed), model, training, shape)
        asked = tuple(dict.fromkeys((*kinds, LAYER, ATTENTION)))
        roofline = Roofline().shard_times(replace(query, kinds=asked))
        modelled = np.stack([roofline.forward_s, roofline.backward_s], axis=2)
        core_modelled = np.stack(
            [roofline.attention_core_s, roofline.attention_core_backward_s], axis=2
        )
        times = np.empty((len(shape.microbatch), len(kinds), 2))
        core = np.empty_like(times)
        apart = roofline.weight_s / roofline.backward_s
        for number, kind in enumerate(kinds):
            if not parts[kind]:
                times[:, number] = modelled[:, number]
            else:
                times[:, number] = np.add.reduce([seconds[u] for u in parts[kind]])
            whole = _whole(kind, parts[kind])
            if whole is not None:
                share = modelled[:, number] / modelled[:, asked.index(whole)]
                times[:, number] = times[:, number] * share
            if kind in (LAYER, ATTENTION) and ATTENTION_CORE in seconds:
                core[:, number] = np.minimum(seconds[ATTENTION_CORE], times[:, number])
            else:
                share = core_modelled[:, number] / modelled[:, number]
                core[:, number] = times[:, number] * share
        return ShardTimes(
            forward_s=times[:, :, 0],
            backward_s=times[:, :, 1],
            attention_core_s=core[:, :, 0],
            attention_core_backward_s=core[:, :, 1],
            weight_s=times[:, :, 1] * apart[:, : len(kinds)],
            communicates=np.stack(
                [self._communicates(parts[kind], fp32, shape) for kind in kinds], axis=1
            ),
            update_s_per_parameter=self.profile.optimizer_s_per_parameter,
        )

    def predicted(
        self, model: Model, training: Training, kinds: tuple[str, ...], shape: Shape
    ) -> NDArray[np.bool_]:
        """Whether shards were not measured, so that a forest predicts them; (R,)."""
        found = np.zeros(len(shape.tp), dtype=np.bool_)
        for unit in self._units(kinds, training):
            found |= np.isnan(self._known(unit, model, training, shape)[:, 0])
        return found

    def sizes(
        self, model: Model, training: Training, kinds: tuple[str, ...], shape: Shape
    ) -> Iterator[Sizes]:
        """Yield the sizes on which the times of each unit depend, known and wanted.

        The last is a factor: every known shard differs by it or more in some size.
        """
        for unit in self._units(kinds, training):
            known = shards_of_rows(unit, self._rows[unit, training.precision == "fp32"])
            wanted = shards_of(unit, model, training, shape)
            apart = np.abs(wanted.place()[:, None, :] - known.place()[None, :, :])
            names = (*place_columns(unit), "gated")
            yield Sizes(
                what=unit,
                names=(*(_NAMES[name] for name in names), _APART),
                known=_columns(known, names, np.resize((1.0, FAR), len(known))),
                wanted=_columns(wanted, names, 2 ** apart.max(axis=2).min(axis=1)),
            )

    def _units(self, kinds: tuple[str, ...], training: Training) -> tuple[str, ...]:
        """Return the profiled units on which the times of kinds depend."""
        fp32 = training.precision == "fp32"
        parts = (unit for kind in kinds for unit in self._parts(kind, fp32))
        return tuple(dict.fromkeys(parts))

    def _parts(self, kind: str, fp32: bool) -> tuple[str, ...]:
        """Return the profiled units that a kind consists of or is part of."""
        kind = WITHOUT_WINDOW.get(kind, kind)
        if (kind, fp32) in self._rows:
            return (kind,)
        if kind == LAYER and all((block, fp32) in self._rows for block in BLOCKS):
            return BLOCKS
        if kind in BLOCKS and (LAYER, fp32) in self._rows:
            return (LAYER,)
        return ()

    def _communicates(
        self, parts: tuple[str, ...], fp32: bool, shape: Shape
    ) -> NDArray[np.bool_]:
        """Whether times of shards include tensor-parallel communication; (R,).

        They do if the profile includes it and all parts were profiled at the degree.
        """
        degrees = [{row.tp for row in self._rows[unit, fp32]} for unit in parts]
        held = set.intersection(*degrees) if degrees else set()
        return np.isin(shape.tp, [*held]) & self.profile.communicates

    def _seconds(
        self, units: tuple[str, ...], model: Model, training: Training, shape: Shape
    ) -> dict[str, Floats]:
        """Return seconds of both passes by unit, measured or predicted; (R, 2)."""
        found = {}
        for unit in units:
            times = self._known(unit, model, training, shape)
            left = np.isnan(times[:, 0])
            if left.any():
                shards = shards_of(
                    unit, model, training, shape.take(np.flatnonzero(left))
                )
                lesson = self._lesson(unit, training.precision == "fp32")
                both = predicted_s(lesson, samples_of(shards), self._cache)
                times[left] = np.stack(both, axis=1)
            found[unit] = times
        return found

    def _lesson(self, unit: str, fp32: bool) -> Lesson:
        """Return what the forest of a unit is grown from."""
        return Lesson(
            stem="",
            settings=SETTINGS,
            words=repr((unit, fp32, astuple(SETTINGS), self._text)),
            known=lambda: known_samples(unit, self._rows[unit, fp32]),
        )

    def _known(
        self, unit: str, model: Model, training: Training, shape: Shape
    ) -> Floats:
        """Return the measured seconds of shards, NaN where there are none; (R, 2)."""
        none = (np.nan, np.nan)
        return np.array(
            [
                none if each is None else self._measured.get(shard_key(each), none)
                for each in shapes_of(unit, model, training, shape)
            ],
            dtype=np.float64,
        ).reshape(-1, 2)


def not_covered(model: Model, training: Training) -> str:
    """Return why no profile of layers can cover a model, and what to write instead.

    Empty if one can.
    """
    kernels = "write latency: {CLUSTER: auto}, which adds up kernels where it can"
    if not model.is_decoder_only:
        what = f"only covers decoder-only models, but {model.name!r} is not one"
        return f"{what}: {kernels}"
    if model.experts is not None or model.latent is not None or model.predictions:
        return (
            "only covers layers with plain attention and one MLP, but "
            f"{model.name!r} has experts, latent attention or predicting layers: "
            f"{kernels}"
        )
    if training.attention == "unfused" or not training.sequence_parallel:
        return (
            "only covers fused attention with sequence parallelism: write training: "
            "{attention: fused, sequence_parallel: true}"
        )
    if training.precision not in DTYPES:
        return f"has no {training.precision} rows: write training: {{precision: bf16}}"
    return ""


def _whole(kind: str, parts: tuple[str, ...]) -> str | None:
    """Return the profiled kind whose time is scaled to get that of ``kind``.

    It is the layer for one of its blocks, and the unit without a window for one with a
    sliding window. None if ``kind`` itself was profiled, or there are no parts.
    """
    if not parts:
        return None
    whole = LAYER if parts == (LAYER,) else WITHOUT_WINDOW.get(kind, kind)
    return None if whole == kind else whole


def _columns(shards: Shards, names: tuple[str, ...], last: Floats) -> Floats:
    """Return columns of shards, and one more; (R, D)."""
    return np.stack([*(shards.column(name) for name in names), last], axis=1)
