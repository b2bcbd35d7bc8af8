"""Which rank of a plan runs on which device of which host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.export.labels import labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.plan import Plan, Stage
    from hetopt.problem.cluster import Cluster
    from hetopt.problem.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One process and its place in the mesh of its stage.

    Attributes
    ----------
    rank
        Global rank, from 0.
    local_device
        Index of the device within its host.
    stage
        Pipeline stage, from 0.
    dp, cp, tp
        Coordinates within the stage, from 0.
    """

    rank: int
    host: str
    local_device: int
    cluster: str
    stage: int
    dp: int
    cp: int
    tp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A host and the ranks ``first_rank <= r < first_rank + slots`` it runs.

    Rank ``first_rank + i`` runs on device i of the host.
    """

    host: str
    cluster: str
    first_rank: int
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where every rank runs.

    Attributes
    ----------
    ranks
        By global rank. Ranks count stages in pipeline order; within a stage ``tp``
        runs fastest, then ``cp``, then ``dp``, as in Megatron-LM.
    nodes
        Hosts in rank order.
    invented
        Clusters whose problem file names no hosts: theirs are placeholders.
    """

    ranks: tuple[Rank, ...]
    nodes: tuple[Node, ...]
    invented: tuple[str, ...]


def place(problem: Problem, plan: Plan) -> Placement:
    """Place the stages of a plan on hosts, each host with consecutive ranks.

    A stage smaller than a node shares it with its neighbours and never straddles two;
    a larger one starts on a node of its own, as the table's costs assume.

    Raises
    ------
    InputError
        The plan has several pipelines, or its stages do not fit in this way (possible
        only where the stages of a cluster have several strategies).
    """
    clusters = {cluster.name: cluster for cluster in problem.clusters}
    spelled = labels(clusters)
    fresh = {name: 0 for name in clusters}
    ranks: list[Rank] = []
    nodes: list[Node] = []
    for number, stage in enumerate(plan.pipeline.stages):
        cluster = clusters[stage.cluster]
        coordinates = _coordinates(stage)
        left = stage.strategy.devices
        while left:
            last = nodes[-1] if nodes else None
            each = cluster.devices_per_node
            if last is None or not _has_room(last, cluster, min(left, each)):
                if fresh[cluster.name] == cluster.nodes:
                    msg = (
                        f"stage {number} needs {left} more devices on nodes of its "
                        f"own, but cluster {cluster.name} has none left"
                    )
                    raise InputError(msg, field=f"pipelines.0.stages.{number}")
                last = Node(
                    host=_host(cluster, fresh[cluster.name], spelled[cluster.name]),
                    cluster=cluster.name,
                    first_rank=len(ranks),
                    slots=0,
                )
                fresh[cluster.name] += 1
                nodes.append(last)
            taken = min(left, each)
            for device in range(last.slots, last.slots + taken):
                dp, cp, tp = next(coordinates)
                ranks.append(
                    Rank(
                        rank=len(ranks),
                        host=last.host,
                        local_device=device,
                        cluster=cluster.name,
                        stage=number,
                        dp=dp,
                        cp=cp,
                        tp=tp,
                    )
                )
            nodes[-1] = Node(
                host=last.host,
                cluster=last.cluster,
                first_rank=last.first_rank,
                slots=last.slots + taken,
            )
            left -= taken
    return Placement(
        ranks=tuple(ranks),
        nodes=tuple(nodes),
        invented=tuple(
            name
            for name in dict.fromkeys(node.cluster for node in nodes)
            if not clusters[name].hosts
        ),
    )


def _has_room(node: Node, cluster: Cluster, devices: int) -> bool:
    """Whether so many more devices of a cluster fit on a node."""
    return (
        node.cluster == cluster.name
        and node.slots + devices <= cluster.devices_per_node
    )


def _coordinates(stage: Stage) -> Iterator[tuple[int, int, int]]:
    """Yield (dp, cp, tp) of a stage's devices, in rank order."""
    strategy = stage.strategy
    for dp in range(strategy.dp):
        for cp in range(strategy.cp):
            for tp in range(strategy.tp):
                yield dp, cp, tp


def _host(cluster: Cluster, number: int, label: str) -> str:
    """Name a cluster's node: from the inventory, or a placeholder."""
    if cluster.hosts:
        return cluster.hosts[number]
    return f"{label}-node-{number + 1}"
