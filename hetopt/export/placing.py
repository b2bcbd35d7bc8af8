"""The host and device of every rank of a plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from hetopt.errors import InputError
from hetopt.export.labels import labels
from hetopt.export.node_order import node_order, shares_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.plans import Plan, Stage
    from hetopt.problem.cluster import Cluster
    from hetopt.problem.problem import Problem


# There may be a million, and frozen dataclasses take several times as long to make.
class Rank(NamedTuple):
    """One process and its coordinates in the mesh of its stage.

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
class PlacedNode:
    """A host with its ranks ``first_rank <= r < first_rank + slots``.

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
        In the launcher's order. A plan's ranks are numbered by stage; within a stage
        ``tp`` varies fastest, then ``cp``, then ``dp``, as in Megatron-LM.
    nodes
        Hosts in rank order.
    invented
        Clusters whose hosts are placeholders, because the problem file names none.
    """

    ranks: tuple[Rank, ...]
    nodes: tuple[PlacedNode, ...]
    invented: tuple[str, ...]


def place(problem: Problem, plan: Plan) -> Placement:
    """Place the stages of a plan on hosts, each host with consecutive ranks.

    A stage of no more devices than a node may share it with its neighbours and never
    spans two; a larger one has nodes of its own. The latency table assumes the same.
    What stages leave over in a node is idle.

    Raises
    ------
    InputError
        The stages do not fit on the nodes in this way, which can happen only if the
        stages of a cluster have several strategies.
    """
    clusters = {cluster.name: cluster for cluster in problem.clusters}
    spelled = labels(clusters)
    stages = plan.pipeline.stages
    shares = {name: shares_of(own, stages) for name, own in clusters.items()}
    order = {
        name: iter(node_order(own, shares[name])) for name, own in clusters.items()
    }
    taken = {name: iter(own) for name, own in shares.items()}
    ranks: list[Rank] = []
    nodes: list[PlacedNode] = []
    last: tuple[str, int] | None = None
    for number, stage in enumerate(stages):
        cluster = clusters[stage.cluster]
        coordinates = _coordinates(stage)
        left = stage.strategy.devices
        while left:
            devices = next(taken[cluster.name]).devices
            here = cluster.name, next(order[cluster.name], -1)
            if here[1] < 0:
                msg = (
                    f"stage {number} needs {left} more devices on nodes of its "
                    f"own, but cluster {cluster.name} has none left"
                )
                raise InputError(msg, field=f"pipelines.0.stages.{number}")
            if here != last:
                host = _host(cluster, here[1], spelled[cluster.name])
                nodes.append(
                    PlacedNode(
                        host=host, cluster=cluster.name, first_rank=len(ranks), slots=0
                    )
                )
                last = here
            ranks += _ranks(nodes[-1], number, devices, coordinates)
            nodes[-1] = replace(nodes[-1], slots=nodes[-1].slots + devices)
            left -= devices
    return Placement(
        ranks=tuple(ranks),
        nodes=tuple(nodes),
        invented=tuple(
            name
            for name in dict.fromkeys(node.cluster for node in nodes)
            if not clusters[name].hosts
        ),
    )


def _ranks(
    node: PlacedNode,
    stage: int,
    taken: int,
    coordinates: Iterator[tuple[int, int, int]],
) -> Iterator[Rank]:
    """Yield the ranks on a node's next ``taken`` devices."""
    for device in range(node.slots, node.slots + taken):
        dp, cp, tp = next(coordinates)
        rank = node.first_rank + device
        yield Rank(rank, node.host, device, node.cluster, stage, dp, cp, tp)


def _coordinates(stage: Stage) -> Iterator[tuple[int, int, int]]:
    """Yield (dp, cp, tp) of a stage's devices, in rank order."""
    strategy = stage.strategy
    for dp in range(strategy.dp):
        for cp in range(strategy.cp):
            for tp in range(strategy.tp):
                yield dp, cp, tp


def _host(cluster: Cluster, number: int, label: str) -> str:
    """Return the name of a cluster's node, a placeholder if the inventory has none."""
    if cluster.hosts:
        return cluster.hosts[number]
    return f"{label}-node-{number + 1}"
