"""A roofline of computation: the *modelled* latency source.

A matrix multiplication of F FLOPs takes the longer of its memory traffic and

    F / (peak * e(F)),      e(F) = e_max * F / (F + peak * ramp),

so efficiency rises with the size of the multiplication: half of ``e_max`` where
the peak would need ``ramp`` seconds. Element-wise work runs at a share of the memory
bandwidth, and every kernel costs a gap. Backward is derived per operation: twice
the forward for multiplications and element-wise work, 2.5 times for fused
attention, which recomputes its scores.

The shares below are ours: chosen once per device family from public measurements
of large multiplications, not fitted to any iteration time. Against the published
Megatron-LM iterations on A100 see ``tests/cost/test_roofline.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.operations import Floats, Operations, Shape, unit_operations
from hetopt.cost.source import ShardTimes

if TYPE_CHECKING:
    from hetopt.cost.table import SourceKind
    from hetopt.problem.cluster import Accelerator, Cluster
    from hetopt.problem.model import Model
    from hetopt.problem.training import Training

#: Forward to backward of the fused attention core (FlashAttention-2: 5 instead of
#: 2 multiplications).
ATTENTION_BACKWARD = 2.5

#: Seconds between two dependent kernels on a busy stream.
KERNEL_GAP_S = 3e-6

#: Without tensor-core support for 32 bits a device reaches at most its TF32 rate,
#: half of the 16-bit one on the devices of the catalogue.
FP32_SHARE_OF_PEAK = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """What share of its nominal rates a device family reaches.

    Attributes
    ----------
    multiplication
        e_max: share of peak FLOP/s of a very large multiplication.
    attention
        The same for the fused attention core.
    memory
        Share of the memory bandwidth.
    ramp_s
        Time constant of the efficiency curve.
    """

    multiplication: float
    attention: float
    memory: float
    ramp_s: float


DEFAULT_EFFICIENCY = Efficiency(
    multiplication=0.75, attention=0.45, memory=0.80, ramp_s=5e-6
)

#: By beginning of the accelerator's name; the longest that fits counts.
EFFICIENCIES = {
    # 250-270 of 312 TFLOP/s on large GEMMs; FlashAttention-2 causal about 170-190.
    "A100": Efficiency(multiplication=0.82, attention=0.55, memory=0.85, ramp_s=5e-6),
    # Power holds large GEMMs at 650-730 of 989 TFLOP/s.
    "H100": Efficiency(multiplication=0.70, attention=0.45, memory=0.85, ramp_s=5e-6),
    "H200": Efficiency(multiplication=0.70, attention=0.45, memory=0.85, ramp_s=5e-6),
    "H800": Efficiency(multiplication=0.70, attention=0.45, memory=0.85, ramp_s=5e-6),
    # An H100 with a seventh of the compute: neither power nor memory holds it back.
    "H20": Efficiency(multiplication=0.90, attention=0.70, memory=0.85, ramp_s=5e-6),
    "B200": Efficiency(multiplication=0.70, attention=0.45, memory=0.85, ramp_s=5e-6),
    "V100": Efficiency(multiplication=0.75, attention=0.40, memory=0.85, ramp_s=5e-6),
    # 550-700 of 1307 TFLOP/s reported for large GEMMs.
    "MI300X": Efficiency(multiplication=0.50, attention=0.30, memory=0.80, ramp_s=8e-6),
    "Ascend": Efficiency(multiplication=0.70, attention=0.40, memory=0.80, ramp_s=8e-6),
}


def efficiency_of(accelerator: Accelerator) -> Efficiency:
    """Return the efficiencies of an accelerator's family, or the default."""
    fits = [name for name in EFFICIENCIES if accelerator.name.startswith(name)]
    return EFFICIENCIES[max(fits, key=len)] if fits else DEFAULT_EFFICIENCY


class Roofline:
    """Latency source that models computation; see the module's head."""

    def source_kind(self, cluster: Cluster) -> SourceKind:
        """Roofline times are modelled on every cluster."""
        del cluster
        return "modelled"

    def shard_times(
        self,
        model: Model,
        training: Training,
        cluster: Cluster,
        kinds: tuple[str, ...],
        shape: Shape,
    ) -> ShardTimes:
        """Return compute times of R shards for N unit kinds."""
        device = _Device(cluster.accelerator, training)
        forward, backward, core, core_backward = [], [], [], []
        for kind in kinds:
            work = unit_operations(model, training, kind, shape)
            dense = device.dense_s(work)
            attention = device.attention_s(work)
            forward.append(
                dense + attention + device.elementwise_s(work.elementwise_bytes, work)
            )
            backward.append(
                2 * dense
                + ATTENTION_BACKWARD * attention
                + device.elementwise_s(work.elementwise_backward_bytes, work)
            )
            core.append(attention)
            core_backward.append(ATTENTION_BACKWARD * attention)
        return ShardTimes(
            forward_s=np.stack(forward, axis=1),
            backward_s=np.stack(backward, axis=1),
            attention_core_s=np.stack(core, axis=1),
            attention_core_backward_s=np.stack(core_backward, axis=1),
        )


class _Device:
    """Rates of one accelerator under one precision."""

    def __init__(self, accelerator: Accelerator, training: Training) -> None:
        self.efficiency = efficiency_of(accelerator)
        share = FP32_SHARE_OF_PEAK if training.precision == "fp32" else 1.0
        self.peak = accelerator.peak_flops * share
        self.bandwidth = (
            accelerator.memory_bandwidth_bytes_per_s * self.efficiency.memory
        )

    def dense_s(self, work: Operations) -> Floats:
        """Forward seconds of all matrix multiplications."""
        total = np.zeros(len(work.attention_flops))
        for part in work.multiplications:
            total += (
                np.maximum(
                    self._ramped_s(part.flops, self.efficiency.multiplication),
                    part.traffic_bytes / self.bandwidth,
                )
                + KERNEL_GAP_S
            )
        return total

    def attention_s(self, work: Operations) -> Floats:
        """Forward seconds of the fused attention core; 0 where there is none."""
        seconds = (
            np.maximum(
                self._ramped_s(work.attention_flops, self.efficiency.attention),
                work.attention_bytes / self.bandwidth,
            )
            + KERNEL_GAP_S
        )
        return np.where(work.attention_flops > 0, seconds, 0.0)

    def elementwise_s(self, traffic_bytes: Floats, work: Operations) -> Floats:
        """Seconds of the memory-bound rest."""
        return traffic_bytes / self.bandwidth + work.kernels * KERNEL_GAP_S

    def _ramped_s(self, flops: Floats, share: float) -> Floats:
        return flops / (self.peak * share) + self.efficiency.ramp_s / share
