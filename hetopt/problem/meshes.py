"""Which (dp, cp, tp, ep, etp) a stage of a cluster may have at a micro-batch count.

MODEL.md section 2: a stage has n = dp * cp * tp devices, any number up to those of a
node, or several whole nodes; tp stays inside a node, divides the heads and the MLP, and
splits or replicates whole key-value heads, in every block of a model of several; cp
splits the sequence into balanced causal pairs of chunks; q * dp divides the global
batch.

For a model with experts, ep * etp divides n, ep the number of routed experts, and etp
their width and the stage's devices in a node; tp also divides the shared expert's
width, and is 1 without sequence parallelism: every rank sends its own tokens. Other
models have ep = etp = 1.
"""

from __future__ import annotations

from math import gcd, isqrt, lcm
from typing import TYPE_CHECKING, NamedTuple

from hetopt.problem.cluster.packing import packed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.pins import ClusterPins
    from hetopt.problem.training.training import Training


class Mesh(NamedTuple):
    """Degrees of a stage: its devices split the batch, the sequence and matrices.

    The same devices split the routed experts (``ep``) and their matrices (``etp``).
    """

    dp: int
    cp: int
    tp: int
    ep: int = 1
    etp: int = 1

    @property
    def devices(self) -> int:
        """Devices of the stage."""
        return self.dp * self.cp * self.tp

    @property
    def inside(self) -> int:
        """Divisor of its devices in each node: tp and etp groups stay inside one."""
        return lcm(self.tp, self.etp)


def meshes(
    model: Model,
    cluster: Cluster,
    training: Training,
    pins: ClusterPins,
    microbatches: int,
) -> Iterator[Mesh]:
    """Yield every mesh that structure and pins permit, ascending."""
    if training.global_batch % microbatches:
        return
    tps = [
        tp
        for tp in tensor_degrees(model, cluster)
        if pins.tp.permits(tp)
        and training.seq_len % tp == 0
        and (tp == 1 or model.experts is None or training.sequence_parallel)
    ]
    cps = [
        cp
        for cp in divisors(training.seq_len)
        if cp <= cluster.devices
        and pins.cp.permits(cp)
        and _splits_sequence(model, training, cp)
    ]
    for dp in divisors(training.global_batch // microbatches):
        if dp > cluster.devices or not pins.dp.permits(dp):
            continue
        for cp in cps:
            for tp in tps:
                devices = dp * cp * tp
                if training.seq_len % (cp * tp) or not packed(cluster, devices, tp):
                    continue
                for degrees in expert_degrees(model, cluster, devices):
                    mesh = Mesh(dp, cp, tp, *degrees)
                    if not (pins.ep.permits(mesh.ep) and pins.etp.permits(mesh.etp)):
                        continue
                    if packed(cluster, devices, mesh.inside) is not None:
                        yield mesh


def expert_degrees(
    model: Model, cluster: Cluster, devices: int
) -> Iterator[tuple[int, int]]:
    """Yield (ep, etp) of routed experts on a stage of ``devices``, ascending.

    Whether a group of ``etp`` fits into one node is left to ``packed``.
    """
    experts = model.experts
    if experts is None:
        yield 1, 1
        return
    for ep in divisors(devices):
        if experts.number % ep:
            continue
        for etp in divisors(devices // ep):
            if etp <= cluster.max_tp and experts.ffn % etp == 0:
                yield ep, etp


def tensor_degrees(model: Model, cluster: Cluster) -> tuple[int, ...]:
    """Return the tensor-parallel degrees that the model and the node permit."""
    return tuple(
        tp
        for tp in divisors(gcd(*(part.heads for part in model.parts)))
        if tp <= cluster.max_tp
        and all(
            (all(model.routed) or part.ffn % tp == 0)
            and (part.kv_heads % tp == 0 or tp % part.kv_heads == 0)
            for part in model.parts
        )
        and (model.experts is None or model.experts.shared_ffn % tp == 0)
    )


def divisors(number: int) -> list[int]:
    """Return every divisor of a whole number of at least 1, ascending."""
    low = [part for part in range(1, isqrt(number) + 1) if number % part == 0]
    high = [number // part for part in reversed(low)]
    return low + high[low[-1] == high[0] :]


def _splits_sequence(model: Model, training: Training, cp: int) -> bool:
    """Whether context parallelism of this degree can split the sequence.

    Balanced causal attention gives every rank an early and a late chunk. Models of
    blocks, whose sequences differ, are not split; neither is unfused attention, which
    holds all scores at once, while a ring holds blocks of them.
    """
    whole = bool(model.blocks) or training.attention == "unfused"
    return cp == 1 or (not whole and training.seq_len % (2 * cp) == 0)
