"""A roofline of computation: the *modelled* latency source.

A matrix multiplication of F FLOPs takes the longer of its memory traffic and

    F / (peak * e(F)),      e(F) = e_max * F / (F + peak * ramp),

so efficiency increases with the size of the multiplication: it is half of ``e_max`` if
F takes ``ramp`` seconds at the peak. The multiplications of a grouped kernel, one per
expert, run one after the other. Element-wise work has a lower share of the memory
bandwidth, and every kernel adds a gap. Backward is derived per operation: two
multiplications for each (the weight's gradient is added to an fp32 buffer), mostly
twice the element-wise work, and 2.5 times the fused attention core.

The shares below are ours, one set per device family, derived from kernels that others
measured. One more number per family, ``sustained``, is calibrated on published
iterations by ``benchmarks/published.py``: whole iterations run slower than the same
kernels one by one, because clocks fall under load, kernels wait for the host and
stragglers, and programs differ in which kernels they fuse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.pieces.operations import Operations
from hetopt.cost.shapes import Floats
from hetopt.cost.sources.source import ShardQuery, ShardTimes
from hetopt.cost.units import unit_operations
from hetopt.problem.model.kinds import END_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.cost.pieces.operations import Multiplication
    from hetopt.cost.table.table import SourceKind
    from hetopt.problem.cluster.cluster import Accelerator, Cluster
    from hetopt.problem.training.choices import Precision

#: Ratio of backward to forward of the fused attention core (FlashAttention-2: 5
#: multiplications instead of 2).
ATTENTION_BACKWARD = 2.5

#: Seconds between two dependent kernels on a busy stream.
KERNEL_GAP_S = 3e-6

#: Share of the memory bandwidth that multiplications and attention reach.
STREAM_SHARE = 0.85

#: For families without a published iteration; close to A100's, the best documented.
DEFAULT_SUSTAINED = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Shares of its nominal rates that a device family reaches.

    Attributes
    ----------
    multiplication
        e_max: share of peak FLOP/s of a very large multiplication.
    attention
        Share of peak FLOP/s of the fused attention core.
    elementwise
        Share of the memory bandwidth that norms, activations and the like reach.
    ramp_s
        Time constant of the efficiency curve.
    sustained
        Share of these rates that whole iterations reach.
    """

    multiplication: float
    attention: float
    elementwise: float = 0.50
    ramp_s: float = 5e-6
    sustained: float = DEFAULT_SUSTAINED


DEFAULT_EFFICIENCY = Efficiency(multiplication=0.70, attention=0.45)

_HOPPER = Efficiency(
    multiplication=0.77, attention=0.18, elementwise=0.43, sustained=1.0
)

#: By prefix of the accelerator's name; the longest matching one is used.
EFFICIENCIES = {
    # Llama-2-7B's multiplications over 512 to 4096 tokens (vidur's profiles) reach
    # 200-245 of 312 TFLOP/s, with a median of 224; norms, activations and rotary
    # embeddings reach a third to half of the bandwidth. FlashAttention-2, causal: about
    # 170 TFLOP/s. Sustained: eight iterations of Megatron-LM and one of HetAuto.
    "A100": Efficiency(multiplication=0.72, attention=0.55, sustained=0.97),
    # Rates of measured kernels times the shares that 35 iterations of llm-foundry
    # reach of them (``hetopt.cost.sources.sustained``), over the peaks.
    "H100": _HOPPER,
    "H200": _HOPPER,
    "H800": _HOPPER,
    # An H100 with a seventh of the compute and all of the bandwidth: neither power
    # nor memory limits it. Sustained: one iteration of HetAuto.
    "H20": Efficiency(multiplication=0.90, attention=0.70, sustained=0.91),
    # As H100, from 12 iterations of Megatron-LM (SimuMax).
    "B200": Efficiency(
        multiplication=0.49, attention=0.36, elementwise=0.63, sustained=1.0
    ),
    # vidur's profiles: 105-120 of 150 TFLOP/s.
    "A40": Efficiency(multiplication=0.73, attention=0.50, elementwise=0.65),
    "V100": Efficiency(multiplication=0.70, attention=0.35),
    # Sustained: the MFU of UniAP's BERT-Huge (appendix G, EnvB: 23.6%), at 4
    # micro-batches, where its plan is fastest.
    "TITAN-Xp": Efficiency(multiplication=0.70, attention=0.45, sustained=0.71),
    # 550-700 of 1307 TFLOP/s reported for large multiplications.
    "MI300X": Efficiency(multiplication=0.50, attention=0.30, ramp_s=8e-6),
    # Sustained: one iteration of HetAuto.
    "Ascend": Efficiency(
        multiplication=0.70, attention=0.40, ramp_s=8e-6, sustained=0.62
    ),
    # Unknown chips: default shares, with sustained from three iterations of H2.
    "H2-Chip": Efficiency(multiplication=0.70, attention=0.45, sustained=0.99),
}


def family_of(
    accelerator: Accelerator, efficiencies: Mapping[str, Efficiency] = EFFICIENCIES
) -> str | None:
    """Return the longest known prefix of the accelerator's name."""
    fits = [name for name in efficiencies if accelerator.name.startswith(name)]
    return max(fits, key=len, default=None)


def efficiency_of(
    accelerator: Accelerator, efficiencies: Mapping[str, Efficiency] = EFFICIENCIES
) -> Efficiency:
    """Return the efficiencies of an accelerator's family, or the default."""
    family = family_of(accelerator, efficiencies)
    return DEFAULT_EFFICIENCY if family is None else efficiencies[family]


class Roofline:
    """Latency source that models computation; see the module's docstring.

    Parameters
    ----------
    efficiencies
        By prefix of the accelerator's name.
    """

    def __init__(self, efficiencies: Mapping[str, Efficiency] = EFFICIENCIES) -> None:
        self._efficiencies = efficiencies

    def source_kind(self, cluster: Cluster) -> SourceKind:
        """Return "modelled" for every cluster."""
        del cluster
        return "modelled"

    def shard_times(self, query: ShardQuery) -> ShardTimes:
        """Return the compute times of a query."""
        accelerator, training = query.cluster.accelerator, query.training
        efficiency = efficiency_of(accelerator, self._efficiencies)
        device = _Device(
            accelerator,
            "bf16" if training.precision == "fp8" else training.precision,
            training.emulate,
            efficiency,
        )
        # Only the layers' multiplications are in FP8: attention, norms and both ends of
        # the model stay in BF16.
        of_layers = device
        if training.precision == "fp8":
            of_layers = _Device(accelerator, "fp8", training.emulate, efficiency)
        forward, backward, core, core_backward, weight = [], [], [], [], []
        for kind in query.kinds:
            work = unit_operations(query.model, training, kind, query.shape)
            attention = device.attention_s(work)
            dense = device if kind in END_KINDS else of_layers
            forward.append(
                dense.dense_s(work)
                + attention
                + device.elementwise_s(work.elementwise_bytes, work)
            )
            backward.append(
                dense.dense_backward_s(work)
                + ATTENTION_BACKWARD * attention
                + device.elementwise_s(work.elementwise_backward_bytes, work)
            )
            core.append(attention)
            core_backward.append(ATTENTION_BACKWARD * attention)
            weight.append(dense.weight_gradients_s(work))
        return ShardTimes(
            forward_s=np.stack(forward, axis=1) / efficiency.sustained,
            backward_s=np.stack(backward, axis=1) / efficiency.sustained,
            attention_core_s=np.stack(core, axis=1) / efficiency.sustained,
            attention_core_backward_s=np.stack(core_backward, axis=1)
            / efficiency.sustained,
            weight_s=np.stack(weight, axis=1) / efficiency.sustained,
        )


class _Device:
    """Rates of one accelerator at one precision."""

    def __init__(
        self,
        accelerator: Accelerator,
        precision: Precision,
        emulate: Precision | None,
        efficiency: Efficiency,
    ) -> None:
        self.efficiency = efficiency
        self.peak = accelerator.peak_flops_of(precision, emulate)
        self.stream = accelerator.memory_bandwidth_bytes_per_s * STREAM_SHARE
        self.bandwidth = (
            accelerator.memory_bandwidth_bytes_per_s * self.efficiency.elementwise
        )

    def dense_s(self, work: Operations) -> Floats:
        """Return the forward seconds of all matrix multiplications."""
        total = np.zeros(len(work.attention_flops))
        for part in work.multiplications:
            total += self._multiplication_s(part, part.traffic_bytes)
        return total

    def dense_backward_s(self, work: Operations) -> Floats:
        """Return the seconds of the gradients of inputs and weights."""
        return self.dense_s(work) + self.weight_gradients_s(work)

    def weight_gradients_s(self, work: Operations) -> Floats:
        """Return the seconds of the gradients of weights."""
        total = np.zeros(len(work.attention_flops))
        for part in work.multiplications:
            total += self._multiplication_s(part, part.weight_gradient_bytes)
        return total

    def attention_s(self, work: Operations) -> Floats:
        """Return the forward seconds of the attention core; 0 if there is none."""
        seconds = (
            np.maximum(
                self._ramped_s(work.attention_flops, self.efficiency.attention),
                work.attention_bytes / self.stream,
            )
            + KERNEL_GAP_S
        )
        return np.where(work.attention_flops > 0, seconds, 0.0)

    def elementwise_s(self, traffic_bytes: Floats, work: Operations) -> Floats:
        """Return the seconds of element-wise work, which is memory-bound."""
        return traffic_bytes / self.bandwidth + work.kernels * KERNEL_GAP_S

    def _multiplication_s(self, part: Multiplication, traffic_bytes: Floats) -> Floats:
        each = self._ramped_s(part.flops / part.count, self.efficiency.multiplication)
        compute = part.count * each
        return np.maximum(compute, traffic_bytes / self.stream) + KERNEL_GAP_S

    def _ramped_s(self, flops: Floats, share: float) -> Floats:
        return flops / (self.peak * share) + self.efficiency.ramp_s / share
