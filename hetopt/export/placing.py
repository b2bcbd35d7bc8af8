"""The host and device of every rank of a plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from hetopt.errors import InputError
from hetopt.export.labels import labels
from hetopt.problem.packing import packed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    hosts = _Hosts(clusters)
    ranks: list[Rank] = []
    for number, stage in enumerate(plan.pipeline.stages):
        cluster = clusters[stage.cluster]
        coordinates = _coordinates(stage)
        devices = stage.strategy.devices
        fit = packed(cluster, devices, stage.strategy.tp)
        taken = devices if fit is None else fit.per_node
        for left in range(devices, 0, -taken):
            node = hosts.take(cluster, taken, alone=taken < devices)
            if node is None:
                msg = (
                    f"stage {number} needs {left} more devices on nodes of its "
                    f"own, but cluster {cluster.name} has none left"
                )
                raise InputError(msg, field=f"pipelines.0.stages.{number}")
            ranks += _ranks(node, number, taken, coordinates)
    return Placement(
        ranks=tuple(ranks),
        nodes=tuple(hosts.nodes),
        invented=tuple(
            name
            for name in dict.fromkeys(node.cluster for node in hosts.nodes)
            if not clusters[name].hosts
        ),
    )


class _Hosts:
    """The nodes that are taken so far, in rank order.

    Attributes
    ----------
    nodes
        With what is taken of each.
    """

    def __init__(self, clusters: Mapping[str, Cluster]) -> None:
        self.nodes: list[PlacedNode] = []
        self._spelled = labels(clusters)
        #: The first node of each cluster that nobody has looked at yet.
        self._next = dict.fromkeys(clusters, 0)
        #: Devices left in the last node.
        self._left = 0

    def take(
        self, cluster: Cluster, devices: int, *, alone: bool
    ) -> PlacedNode | None:
        """Take devices of one node; return it as it was before, None if none is left.

        Parameters
        ----------
        alone
            Whether nothing else may be in the node.
        """
        here = self.nodes[-1] if self.nodes else None
        shares = here is not None and here.cluster == cluster.name
        if here is None or not shares or alone or self._left < devices:
            here = self._opened(cluster, devices)
            if here is None:
                return None
            self.nodes.append(here)
        self.nodes[-1] = replace(here, slots=here.slots + devices)
        self._left = 0 if alone else self._left - devices
        return here

    def _opened(self, cluster: Cluster, devices: int) -> PlacedNode | None:
        """Return the cluster's next node with so many devices."""
        if devices > cluster.devices_per_node:
            return None
        nodes = range(self._next[cluster.name], cluster.nodes)
        number = next((k for k in nodes if cluster.devices_of(k) >= devices), None)
        if number is None:
            return None
        self._next[cluster.name], self._left = number + 1, cluster.devices_of(number)
        ranks = self.nodes[-1].first_rank + self.nodes[-1].slots if self.nodes else 0
        return PlacedNode(
            host=_host(cluster, number, self._spelled[cluster.name]),
            cluster=cluster.name,
            first_rank=ranks,
            slots=0,
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
