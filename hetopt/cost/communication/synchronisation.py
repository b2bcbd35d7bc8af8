"""Time of an iteration after the last backward pass: g of MODEL.md section 3.

Gradients are reduced over the ranks that hold the same parameters (dp * cp of dense
ones) in fp32, weights gathered in training precision:

    ZeRO-0   all-reduce of gradients
    ZeRO-1   reduce-scatter of gradients, all-gather of weights
    ZeRO-2   all-gather of weights (gradients were scattered per micro-batch)
    ZeRO-3   nothing (weights are gathered per micro-batch too)

The reduction of a unit overlaps with the backward pass of the units before it, in
the last micro-batch only. To stay linear in the units and never be optimistic, a
unit's reduction is hidden at most by its own backward time, and one body unit's
reduction, the last bucket, is not hidden at all. With ``overlap_gradients: false``
(Megatron-LM's default) nothing is hidden. The gather of weights is not hidden. The
optimizer step reads and writes the states of a device's shard at memory bandwidth,
unless a profile has its time.

An offloaded optimizer (ZeRO-Offload) takes three consecutive steps instead: the reduced
gradients of a device's shard go to its host, the host reads and writes the states at
its own memory bandwidth, and the weights come back in training precision. ZeRO-Offload
and Megatron-LM can overlap these steps; no overlap is assumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.communication.collectives import gather_held_s, scatter_held_s
from hetopt.cost.communication.within_stage import overlapped_s
from hetopt.cost.memory import parameter_bytes

if TYPE_CHECKING:
    from hetopt.cost.held_alike import HeldAlike
    from hetopt.cost.shapes import Floats, Ints
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.training.training import Training

#: Share of the memory bandwidth that the optimizer's element-wise kernels reach.
OPTIMIZER_MEMORY_SHARE = 0.8

#: Seconds that the smallest optimizer step takes.
OPTIMIZER_START_S = 1e-3


def reduction_s(
    training: Training, cluster: Cluster, part: HeldAlike, per_node: Ints
) -> Floats:
    """Return the time to reduce a unit's gradients once per iteration; (R,)."""
    if training.zero >= 2:
        return np.zeros(len(part.parameters))
    size = parameter_bytes(training).gradient
    once = scatter_held_s(cluster, part, per_node, size)
    return 2 * once if training.zero == 0 else once


def update_s(
    training: Training,
    cluster: Cluster,
    part: HeldAlike,
    per_node: Ints,
    measured_s: float | None = None,
) -> Floats:
    """Return the time to update a unit's weights, and to gather them if sharded; (R,).

    Parameters
    ----------
    per_node
        Devices that the stage has in each of its nodes.
    measured_s
        Time to update one parameter on the device; None if it was not measured.
    """
    size = parameter_bytes(training)
    seconds = np.zeros(len(part.parameters))
    if training.zero in (1, 2):
        seconds = gather_held_s(cluster, part, per_node, size.weight)
    shard = part.parameters / (part.shards if training.zero else 1)
    offloads = cluster.offload == "optimizer"
    if measured_s is not None and not offloads:
        return seconds + shard * measured_s
    # States are read and written, the gradient read, the weight written.
    traffic = shard * (2 * size.optimizer + size.gradient + size.weight)
    if training.precision == "fp32":
        traffic = traffic + shard * size.weight
    if offloads:
        crossing = shard * (size.gradient + size.weight)
        seconds = seconds + crossing / cluster.host_device.bandwidth_bytes_per_s
        return seconds + traffic / cluster.host_memory_bytes_per_s
    bandwidth = (
        cluster.accelerator.memory_bandwidth_bytes_per_s * OPTIMIZER_MEMORY_SHARE
    )
    return seconds + traffic / bandwidth


def update_start_s(cluster: Cluster) -> float:
    """Return the seconds of a stage's update that do not depend on its units."""
    if cluster.offload == "optimizer":
        # To the host and back.
        return OPTIMIZER_START_S + 2 * cluster.host_device.latency_s
    return OPTIMIZER_START_S


def exposed_s(
    reductions_s: Floats,
    backward_s: Floats,
    body: tuple[bool, ...],
    *,
    overlap: bool,
) -> tuple[Floats, Floats]:
    """Split exposed reductions into seconds per stage (R,) and per unit (R, N)."""
    if not overlap:
        return np.zeros(len(reductions_s)), reductions_s
    beside = overlapped_s(backward_s, reductions_s) - backward_s
    last = reductions_s - beside
    return last[:, list(body)].max(axis=1), beside
