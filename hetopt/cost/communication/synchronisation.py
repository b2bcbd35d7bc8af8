"""What an iteration costs after the last backward pass: g of MODEL.md section 3.

Gradients are reduced over the ranks that hold the same parameters (dp * cp of dense
ones) in fp32, weights gathered in training precision:

    ZeRO-0   all-reduce of gradients
    ZeRO-1   reduce-scatter of gradients, all-gather of weights
    ZeRO-2   all-gather of weights (gradients were scattered per micro-batch)
    ZeRO-3   nothing (weights are gathered per micro-batch too)

The reduction of a unit overlaps with the backward pass of the units before it, in
the last micro-batch only. To stay linear in the units and never optimistic, a
unit hides at most its own backward time, and one body unit's share, the last
bucket, is not hidden at all. With ``overlap_gradients: false`` (Megatron-LM's
default) nothing is hidden. The gather of weights is not hidden. The optimizer
step reads and writes the states of a device's shard at memory bandwidth, unless a
profile has its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.communication.collectives import gather_held_s
from hetopt.cost.communication.within_stage import overlapped_s
from hetopt.cost.memory import parameter_bytes

if TYPE_CHECKING:
    from hetopt.cost.held_alike import HeldAlike
    from hetopt.cost.shapes import Floats
    from hetopt.problem.cluster import Cluster
    from hetopt.problem.training import Training

#: Share of the memory bandwidth that the optimizer's element-wise kernels reach.
OPTIMIZER_MEMORY_SHARE = 0.8

#: Seconds that the smallest optimizer step takes.
OPTIMIZER_START_S = 1e-3


def reduction_s(training: Training, cluster: Cluster, part: HeldAlike) -> Floats:
    """Reduce gradients of one unit once per iteration; (R,)."""
    if training.zero >= 2:
        return np.zeros(len(part.parameters))
    once = gather_held_s(cluster, part, parameter_bytes(training).gradient)
    return 2 * once if training.zero == 0 else once


def update_s(
    training: Training,
    cluster: Cluster,
    part: HeldAlike,
    measured_s: float | None = None,
) -> Floats:
    """Gather weights if the update is sharded, and update those of one unit; (R,).

    Parameters
    ----------
    measured_s
        Of the update of one parameter; None if it was not measured.
    """
    size = parameter_bytes(training)
    seconds = np.zeros(len(part.parameters))
    if training.zero in (1, 2):
        seconds = gather_held_s(cluster, part, size.weight)
    shard = part.parameters / (part.replicas if training.zero else 1)
    if measured_s is not None:
        return seconds + shard * measured_s
    # States are read and written, the gradient read, the weight written.
    traffic = shard * (2 * size.optimizer + size.gradient + size.weight)
    if training.precision == "fp32":
        traffic = traffic + shard * size.weight
    bandwidth = (
        cluster.accelerator.memory_bandwidth_bytes_per_s * OPTIMIZER_MEMORY_SHARE
    )
    return seconds + traffic / bandwidth


def exposed_s(
    reductions_s: Floats,
    backward_s: Floats,
    body: tuple[bool, ...],
    *,
    overlap: bool,
) -> tuple[Floats, Floats]:
    """Split reductions into a part per stage (R,) and a part per unit (R, N)."""
    if not overlap:
        return np.zeros(len(reductions_s)), reductions_s
    beside = overlapped_s(backward_s, reductions_s) - backward_s
    last = reductions_s - beside
    return last[:, list(body)].max(axis=1), beside
