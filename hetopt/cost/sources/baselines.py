"""Baselines for forests: a roofline and the nearest profiled neighbour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.shard_shape import ATTENTION_CORE
from hetopt.cost.sources.features import Shards, flops_and_bytes, grouped
from hetopt.cost.sources.roofline import Roofline
from hetopt.cost.sources.source import ShardQuery
from hetopt.problem.cluster.accelerator import Accelerator
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.model.kinds import ATTENTION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.cost.profiles.file import ProfileRow
    from hetopt.cost.shapes import Floats

#: Distance between shards of different dtypes or kinds of MLP, in octaves.
OTHER_VARIANT = 4.0

#: Candidates for the FLOPs per byte at which a fitted roofline bends.
BENDS = np.logspace(-1, 4, 101)


def modelled_seconds(
    unit: str, rows: Sequence[ProfileRow], accelerator: Accelerator
) -> Floats:
    """Return the times of rows by hetopt's roofline of an accelerator; (R, 2)."""
    cluster = one_device(accelerator)
    seconds = np.empty((len(rows), 2))
    core = unit == ATTENTION_CORE
    kinds = (ATTENTION if core else unit,)
    for indices, model, training, shape in grouped(rows):
        query = ShardQuery(
            model=model, training=training, cluster=cluster, kinds=kinds, shape=shape
        )
        times = Roofline().shard_times(query)
        passes = (
            (times.attention_core_s, times.attention_core_backward_s)
            if core
            else (times.forward_s, times.backward_s)
        )
        seconds[indices] = np.concatenate(passes, axis=1)
    return seconds


class FittedRoofline:
    """The longer of FLOPs / peak and bytes / bandwidth, both fitted.

    For devices that are not in the catalogue. One peak and one bandwidth for all
    units and both passes minimise the mean absolute logarithm of predicted over
    measured.
    """

    def __init__(
        self, shards: Mapping[str, Shards], seconds: Mapping[str, Floats]
    ) -> None:
        """Fit the two rates; ``seconds`` is (R, 2) per unit."""
        flops, moved, measured = [], [], []
        for unit, part in shards.items():
            for pass_ in (0, 1):
                dense, attention, read = flops_and_bytes(part, backward=bool(pass_))
                flops.append(dense + attention)
                moved.append(read)
                measured.append(seconds[unit][:, pass_])
        all_flops, all_moved = np.concatenate(flops), np.concatenate(moved)
        logs = np.log(np.concatenate(measured))
        best = np.inf
        for bend in BENDS:
            error = logs - np.log(np.maximum(all_flops, all_moved * bend))
            scale = float(np.median(error))
            loss = float(np.abs(error - scale).mean())
            if loss < best:
                best = loss
                self.peak_flops = float(np.exp(-scale))
                self.bandwidth_bytes_per_s = self.peak_flops / float(bend)

    def seconds(self, shards: Shards) -> Floats:
        """Return forward and backward times; (R, 2)."""
        passes = []
        for pass_ in (0, 1):
            dense, attention, moved = flops_and_bytes(shards, backward=bool(pass_))
            compute = (dense + attention) / self.peak_flops
            passes.append(np.maximum(compute, moved / self.bandwidth_bytes_per_s))
        return np.stack(passes, axis=1)


def neighbour_seconds(known: Shards, seconds: Floats, wanted: Shards) -> Floats:
    """Return the times of the nearest known shards, scaled by FLOPs; (R, 2).

    Distances are those of ``distances``; of equally near ones the first is used.
    """
    nearest = distances(known, wanted).argmin(axis=1)
    scale = wanted.flops() / known.flops()[nearest]
    scaled: Floats = seconds[nearest] * scale[:, None]
    return scaled


def distances(known: Shards, wanted: Shards) -> Floats:
    """Return Euclidean distances in octaves of wanted and known shards; (R, K)."""
    apart = wanted.place()[:, None, :] - known.place()[None, :, :]
    squares = np.square(apart).sum(axis=2)
    for name in ("element_bytes", "gated"):
        differs = wanted.column(name)[:, None] != known.column(name)[None, :]
        squares += np.where(differs, OTHER_VARIANT**2, 0.0)
    octaves: Floats = np.sqrt(squares)
    return octaves


def one_device(accelerator: Accelerator) -> Cluster:
    """Return a cluster of one device: compute times do not depend on links."""
    return Cluster(
        name="profiled",
        accelerator=accelerator,
        nodes=1,
        devices_per_node=1,
        memory_bytes=accelerator.memory_bytes,
        max_tp=1,
        intra_node=accelerator.intra_node,
        inter_node=accelerator.intra_node,
        host_device=accelerator.host_device,
        nics_per_node=1,
    )
