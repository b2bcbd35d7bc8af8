"""A roofline of computation: the *modelled* latency source.

A matrix multiplication of F FLOPs takes the longer of its memory traffic and

    F / (peak * e(F)),      e(F) = e_max * F / (F + peak * ramp),

so efficiency increases with the size of the multiplication: it is half of ``e_max`` if
F takes ``ramp`` seconds at the peak. The multiplications of a grouped kernel, one per
expert, run one after the other. Element-wise work has a lower share of the memory
bandwidth, and every kernel adds a gap. Backward is derived per operation: two
multiplications for each (the weight's gradient is added to an fp32 buffer), mostly
twice the element-wise work, and 2.5 times the fused attention core.

The shares are each device's (``Accelerator.roofline``), derived from kernels that
others measured. One of them, ``sustained``, is calibrated on published iterations by
``benchmarks/published.py``: whole iterations run slower than the same kernels one by
one, because clocks fall under load, kernels wait for the host and stragglers, and
programs differ in which kernels they fuse.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.pieces.operations import Operations
from hetopt.cost.shapes import Floats
from hetopt.cost.sources.source import ShardQuery, ShardTimes
from hetopt.cost.units import unit_operations
from hetopt.problem.model.kinds import END_KINDS
from hetopt.problem.training.choices import BESIDE_BF16

if TYPE_CHECKING:
    from hetopt.cost.pieces.operations import Multiplication
    from hetopt.cost.table.table import SourceKind
    from hetopt.problem.cluster.accelerator import Accelerator
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.training.choices import Precision
    from hetopt.problem.training.training import Training

#: Ratio of backward to forward of the fused attention core (FlashAttention-2: 5
#: multiplications instead of 2).
ATTENTION_BACKWARD = 2.5

#: Seconds between two dependent kernels on a busy stream.
KERNEL_GAP_S = 3e-6

#: Share of the memory bandwidth that multiplications and attention reach.
STREAM_SHARE = 0.85


class Roofline:
    """Latency source that models computation; see the module's docstring."""

    def source_kind(self, cluster: Cluster) -> SourceKind:
        """Return "modelled" for every cluster."""
        del cluster
        return "modelled"

    def shard_times(self, query: ShardQuery) -> ShardTimes:
        """Return the compute times of a query."""
        accelerator, training = query.cluster.accelerator, query.training
        device, of_layers = _devices(accelerator, training)
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
        sustained = accelerator.roofline.sustained
        return ShardTimes(
            forward_s=np.stack(forward, axis=1) / sustained,
            backward_s=np.stack(backward, axis=1) / sustained,
            attention_core_s=np.stack(core, axis=1) / sustained,
            attention_core_backward_s=np.stack(core_backward, axis=1) / sustained,
            weight_s=np.stack(weight, axis=1) / sustained,
        )


def share_of_layer(
    accelerator: Accelerator, training: Training, part: Operations, whole: Operations
) -> Floats:
    """Return the share of a layer's forward pass that some of its operations take."""
    device, of_layers = _devices(accelerator, training)

    def seconds(work: Operations) -> Floats:
        moved = device.elementwise_s(work.elementwise_bytes, work)
        return of_layers.dense_s(work) + device.attention_s(work) + moved

    share: Floats = seconds(part) / seconds(whole)
    return share


def _devices(accelerator: Accelerator, training: Training) -> tuple[_Device, _Device]:
    """Return the rates of most operations, and of layers' multiplications."""
    # Attention, norms and both ends of the model stay in BF16.
    precision = training.precision
    usual: Precision = "bf16" if precision in BESIDE_BF16 else precision
    device = partial(_Device, accelerator, emulate=training.emulate)
    return device(usual), device(precision)


class _Device:
    """Rates of one accelerator at one precision."""

    def __init__(
        self,
        accelerator: Accelerator,
        precision: Precision,
        emulate: Precision | None,
    ) -> None:
        self.efficiency = accelerator.roofline
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
