"""Latencies of a cluster from its profile: a forest's predictions.

Times that a profile lacks are derived:

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
from importlib import metadata
from typing import TYPE_CHECKING, cast

import numpy as np

from hetopt.cost.profiles.file import Profile, ProfileRow, parse_profile
from hetopt.cost.profiles.units import place_columns
from hetopt.cost.shapes import Floats, Shape
from hetopt.cost.shard_shape import ATTENTION_CORE
from hetopt.cost.sources import prediction_cache
from hetopt.cost.sources.features import Shards, shards_of, shards_of_rows
from hetopt.cost.sources.forest import DEFAULT_PARAMS, Forest, ForestParams
from hetopt.cost.sources.roofline import Roofline
from hetopt.cost.sources.source import ShardQuery, ShardTimes
from hetopt.errors import InputError
from hetopt.problem.model.kinds import (
    ATTENTION,
    BLOCKS,
    END_KINDS,
    LAYER,
    WITHOUT_WINDOW,
)
from hetopt.problem.model.model import Model
from hetopt.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from hetopt.cost.table.table import SourceKind
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.training.training import Training

#: A shape is far outside a profile if every profiled shape differs from it by more
#: than this factor in some dimension.
FAR = 2.0

#: Libraries on whose versions a prediction depends.
LIBRARIES = ("numpy", "scikit-learn", "scipy")

#: Names of columns in warnings.
_NAMES = {
    "tokens": "tokens per device",
    "hidden": "hidden size",
    "microbatch": "micro-batch",
    "seq_len": "sequence length",
    "query": "width of all heads per device",
    "inner": "ffn per device",
    "logits": "vocabulary per device",
}


class ForestSource:
    """Latency source with forests of one profile."""

    def __init__(
        self,
        text: str,
        name: str,
        *,
        params: ForestParams = DEFAULT_PARAMS,
        cache: Path | None = None,
    ) -> None:
        """Read a profile.

        Parameters
        ----------
        text
            Content of the profile.
        name
            Its name in errors and warnings.
        cache
            Folder of cached predictions; the user's cache by default.

        Raises
        ------
        InputError
            The profile is malformed; the message has file, line and column.
        """
        self.name = name
        self.profile: Profile = parse_profile(text, name)
        self._text = text.encode()
        self._params = params
        self._cache = cache
        self._rows: dict[tuple[str, bool], list[ProfileRow]] = {}
        for row in self.profile.rows:
            if row.status == "ok":
                key = (row.unit, row.dtype == "fp32")
                self._rows.setdefault(key, []).append(row)

    def source_kind(self, cluster: Cluster) -> SourceKind:
        """Return the profile's kind."""
        del cluster
        return cast("SourceKind", self.profile.header["kind"])

    def lacks(
        self, model: Model, training: Training, kinds: tuple[str, ...]
    ) -> str | None:
        """Return why the profile does not cover a model's units; None if it does."""
        reason = not_profiled(model)
        if reason:
            return reason
        if training.attention == "unfused" or not training.sequence_parallel:
            return "only covers fused attention with sequence parallelism"
        fp32 = training.precision == "fp32"
        measured = any(key[1] == fp32 for key in self._rows)
        if training.precision == "fp8" or not measured:
            return f"has no {training.precision} rows"
        for kind in kinds:
            if kind not in END_KINDS and not self._parts(kind, fp32):
                return f"has no {training.precision} rows of unit {kind!r}"
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
            advice = "use" if not_profiled(model) else "profile them, or use"
            raise InputError(f"{reason}; {advice} latency: roofline", file=self.name)
        fp32 = training.precision == "fp32"
        parts = {kind: self._parts(kind, fp32) for kind in kinds}
        needed = dict.fromkeys(unit for units in parts.values() for unit in units)
        if (ATTENTION_CORE, fp32) in self._rows:
            needed[ATTENTION_CORE] = None
        seconds = self._predict(
            {unit: shards_of(unit, model, training, shape) for unit in needed}, fp32
        )
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

    def far_outside(
        self, model: Model, training: Training, kinds: tuple[str, ...], shape: Shape
    ) -> str | None:
        """Describe how shards are far outside of the profile; None if they are not.

        A shard is far outside if no profiled shard of its unit is within a factor
        of ``FAR`` in every dimension, or none has its kind of layer.
        """
        fp32 = training.precision == "fp32"
        for kind in kinds:
            for unit in self._parts(kind, fp32):
                rows = self._rows[unit, fp32]
                known = shards_of_rows(unit, rows)
                wanted = shards_of(unit, model, training, shape)
                if kind not in END_KINDS and not np.any(
                    known.column("gated") == float(model.gated)
                ):
                    variant = "gated (Llama)" if model.gated else "GPT"
                    return f"no {variant} {unit} was profiled"
                far = far_shards(known, wanted)
                if far.any():
                    return _describe_far(known, wanted.select(far))
        return None

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

    def _predict(self, wanted: dict[str, Shards], fp32: bool) -> dict[str, Floats]:
        """Return forward and backward seconds by unit, from the cache if possible."""
        folder = self._cache or prediction_cache.cache_folder()
        key = self._key(wanted)
        sizes = {unit: len(shards) for unit, shards in wanted.items()}
        found = prediction_cache.load(folder, key, sizes)
        if found is not None:
            return found
        made = {}
        for unit, shards in wanted.items():
            rows = self._rows[unit, fp32]
            seconds = np.array([(row.forward_s, row.backward_s) for row in rows])
            forest = Forest(shards_of_rows(unit, rows), seconds, self._params)
            made[unit] = forest.predict(shards).seconds
        prediction_cache.store(folder, key, made)
        return made

    def _key(self, wanted: dict[str, Shards]) -> str:
        versions = [f"{name} {metadata.version(name)}" for name in LIBRARIES]
        known = ["hetopt " + __version__, *versions, repr(astuple(self._params))]
        parts = [self._text, "\n".join(known).encode()]
        for unit, shards in wanted.items():
            numbers = np.stack(list(shards.columns.values()), axis=1)
            parts += [unit.encode(), numbers.tobytes()]
        return prediction_cache.digest(*parts)


def not_profiled(model: Model) -> str:
    """Return why profiles of layers cannot cover a model; empty if they can."""
    if not model.is_decoder_only:
        return f"only covers decoder-only models, but {model.name!r} is not one"
    if model.experts is not None or model.latent is not None or model.predictions:
        return (
            "only covers layers with plain attention and one MLP, but "
            f"{model.name!r} has experts, latent attention or predicting layers"
        )
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


def far_shards(known: Shards, wanted: Shards) -> NDArray[np.bool_]:
    """Whether each wanted shard is far outside of the known shards; (R,)."""
    apart = np.abs(wanted.place()[:, None, :] - known.place()[None, :, :])
    nearest = apart.max(axis=2).min(axis=1)
    # The logarithm of exactly the factor may be rounded up.
    far: NDArray[np.bool_] = nearest > np.log2(FAR) + 1e-9
    return far


def _describe_far(known: Shards, far: Shards) -> str:
    """Return the dimensions in which shards are outside of the profiled range."""
    found = []
    for column in place_columns(known.unit):
        least, most = known.column(column).min(), known.column(column).max()
        values = far.column(column)
        value = values.max() if values.max() > most else values.min()
        if not least <= value <= most:
            found.append(f"{_NAMES[column]} {value:g}, profiled {least:g} to {most:g}")
    if not found:
        found = ["between profiled sizes that are far apart"]
    return f"{known.unit} ({'; '.join(found)})"
