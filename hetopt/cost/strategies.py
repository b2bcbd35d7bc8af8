"""Which (dp, cp, tp, recompute) a stage of a cluster may use at a micro-batch count.

MODEL.md section 2: a stage has n = dp * cp * tp devices, n divides the node's devices
or is a multiple of them; tp divides the node's devices, the heads and the MLP, and
splits or replicates whole key-value heads, in every block of a model of several; cp
splits the sequence into balanced causal pairs of chunks; q * dp divides the global
batch. Memory is checked where it is known, in ``hetopt.cost.build``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.plan import Strategy
from hetopt.problem.training import RECOMPUTE

if TYPE_CHECKING:
    from hetopt.problem.cluster import Cluster
    from hetopt.problem.model import Model
    from hetopt.problem.problem import Problem
    from hetopt.problem.training import Recompute


def strategies(
    problem: Problem, cluster: Cluster, microbatches: int
) -> tuple[Strategy, ...]:
    """Return every strategy that structure and pins permit, ascending."""
    training = problem.training
    if training.global_batch % microbatches:
        return ()
    per_microbatch = training.global_batch // microbatches
    pins = problem.pins.of(cluster.name)
    tps = [
        tp
        for tp in tensor_degrees(problem.model, cluster)
        if pins.tp.permits(tp) and training.seq_len % tp == 0
    ]
    policies = [
        policy
        for policy in recompute_policies(problem, cluster)
        if pins.recompute.permits(policy)
    ]
    cps = [
        cp
        for cp in range(1, cluster.devices + 1)
        if pins.cp.permits(cp) and _splits_sequence(problem, cp)
    ]
    found = [
        Strategy(dp=dp, cp=cp, tp=tp, recompute=policy)
        for dp in range(1, min(per_microbatch, cluster.devices) + 1)
        if per_microbatch % dp == 0 and pins.dp.permits(dp)
        for cp in cps
        if dp * cp <= cluster.devices
        for tp in tps
        if training.seq_len % (cp * tp) == 0 and fills_nodes(cluster, dp * cp * tp)
        for policy in policies
    ]
    return tuple(sorted(found))


def tensor_degrees(model: Model, cluster: Cluster) -> tuple[int, ...]:
    """Return the tensor-parallel degrees that the model and the node permit."""
    return tuple(
        tp
        for tp in range(1, cluster.max_tp + 1)
        if cluster.devices_per_node % tp == 0
        and all(
            part.heads % tp == 0
            and part.ffn % tp == 0
            and (part.kv_heads % tp == 0 or tp % part.kv_heads == 0)
            for part in model.parts
        )
    )


def fills_nodes(cluster: Cluster, devices: int) -> bool:
    """Whether stages of so many devices pack into the cluster's nodes."""
    per_node = cluster.devices_per_node
    return devices <= cluster.devices and (
        per_node % devices == 0 or devices % per_node == 0
    )


def recompute_policies(problem: Problem, cluster: Cluster) -> tuple[Recompute, ...]:
    """Return the policies the training settings name for a cluster; all for auto."""
    return problem.training.recompute.get(cluster.name, RECOMPUTE)


def _splits_sequence(problem: Problem, cp: int) -> bool:
    """Balanced causal attention gives every rank an early and a late chunk.

    Sequences of several lengths, or in windows, stay whole.
    """
    alike = not problem.model.blocks
    return cp == 1 or (alike and problem.training.seq_len % (2 * cp) == 0)
