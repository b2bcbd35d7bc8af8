"""Strategies that a stage of a cluster may use with a micro-batch count.

``hetopt.cost.build`` drops those that need too much memory.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from hetopt.plans.strategy import Strategy
from hetopt.problem.meshes import meshes
from hetopt.problem.training.choices import RECOMPUTE, Recompute

if TYPE_CHECKING:
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem


#: The fields by which strategies compare, in order.
_ORDER = attrgetter("dp", "cp", "tp", "etp", "ep", "recompute")


def strategies(
    problem: Problem, cluster: Cluster, microbatches: int
) -> tuple[Strategy, ...]:
    """Return every strategy that the model, cluster and pins permit, ascending."""
    pins = problem.pins.of(cluster.name)
    policies = [
        policy
        for policy in recompute_policies(problem, cluster)
        if pins.recompute.permits(policy)
    ]
    found = [
        Strategy(
            dp=mesh.dp,
            cp=mesh.cp,
            tp=mesh.tp,
            ep=mesh.ep,
            etp=mesh.etp,
            recompute=policy,
        )
        for mesh in meshes(problem.model, cluster, problem.training, pins, microbatches)
        for policy in policies
    ]
    return tuple(sorted(found, key=_ORDER))


def recompute_policies(problem: Problem, cluster: Cluster) -> tuple[Recompute, ...]:
    """Return the policies that the training settings name for a cluster; else all."""
    return problem.training.recompute.get(cluster.name, RECOMPUTE)
