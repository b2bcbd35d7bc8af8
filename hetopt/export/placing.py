"""The host and device of every rank of a plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from hetopt.errors import InputError
from hetopt.export.labels import labels
from hetopt.export.node_order import node_order, shares_of
from hetopt.export.node_parts import node_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hetopt.plans.plan import Pipeline, Plan, Stage
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem


# There may be a million ranks, and frozen dataclasses take several times as long.
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
    pipeline
        Number of the pipeline, from 0.
    """

    rank: int
    host: str
    local_device: int
    cluster: str
    stage: int
    dp: int
    cp: int
    tp: int
    pipeline: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedNode:
    """A host with its ranks ``first_rank <= r < first_rank + slots``.

    Rank ``first_rank + i`` runs on device ``first_device + i`` of the host. A host that
    is divided among several pipelines has one entry for each; so has one whose stages
    stand apart in a pipeline.
    """

    host: str
    cluster: str
    first_rank: int
    slots: int
    first_device: int = 0


class Seat(NamedTuple):
    """A node, or a pipeline's part of it, which begins with ``first_device``."""

    host: str
    first_device: int = 0


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

    def part(self, pipeline: int) -> Placement:
        """Return where the ranks of one pipeline run."""
        ranks = tuple(rank for rank in self.ranks if rank.pipeline == pipeline)
        own = range(ranks[0].rank, ranks[-1].rank + 1)
        nodes = tuple(node for node in self.nodes if node.first_rank in own)
        used = {node.cluster for node in nodes}
        return Placement(
            ranks=ranks,
            nodes=nodes,
            invented=tuple(name for name in self.invented if name in used),
        )


def divided(placement: Placement) -> list[str]:
    """Return the hosts whose ranks are in several groups."""
    counts = Counter(node.host for node in placement.nodes)
    return [host for host, count in counts.items() if count > 1]


def place(problem: Problem, plan: Plan) -> Placement:
    """Place the stages of a plan of one pipeline.

    A stage of no more devices than a node may share it with others and never spans two;
    a larger one has nodes of its own. The latency table assumes the same. The stages of
    a node are neighbours if they can be, so that its ranks follow each other. Devices
    of a node that no stage takes are idle.

    Raises
    ------
    InputError
        The stages do not fit on the nodes in this way.
    """
    spelled = labels(cluster.name for cluster in problem.clusters)
    seats = {
        cluster.name: [
            Seat(host_of(cluster, number, spelled[cluster.name]))
            for number in range(cluster.nodes)
        ]
        for cluster in problem.clusters
    }
    ranks, nodes = _placed(problem, plan.pipeline, seats, (0, 0))
    return Placement(
        ranks=tuple(ranks), nodes=tuple(nodes), invented=_invented(problem, nodes)
    )


def place_several(problem: Problem, plan: Plan, parts: Sequence[Problem]) -> Placement:
    """Place pipelines side by side, one after the other, each on its part of the nodes.

    Parameters
    ----------
    problem, parts
        The whole problem, and each pipeline's part of it.

    Raises
    ------
    InputError
        As ``place``, or the parts do not fit on the nodes.
    """
    spelled = labels(cluster.name for cluster in problem.clusters)
    own: list[dict[str, list[Seat]]] = [{} for _ in plan.pipelines]
    for cluster in problem.clusters:
        shares = [each.share for each in plan.pipelines]
        wanted = [
            share.nodes.get(cluster.name, ()) if share else () for share in shares
        ]
        found = node_parts(cluster, wanted)
        if found is None:
            msg = f"has no nodes to cut {wanted} devices from"
            raise InputError(msg, field=f"clusters.{cluster.name}")
        for seats, given in zip(own, found, strict=True):
            seats[cluster.name] = [
                Seat(host_of(cluster, number, spelled[cluster.name]), first)
                for number, first in given
            ]
    ranks: list[Rank] = []
    nodes: list[PlacedNode] = []
    for number, pipeline in enumerate(plan.pipelines):
        start = number, len(ranks)
        more = _placed(parts[number], pipeline, own[number], start)
        ranks += more[0]
        nodes += more[1]
    return Placement(
        ranks=tuple(ranks), nodes=tuple(nodes), invented=_invented(problem, nodes)
    )


def _invented(problem: Problem, nodes: Sequence[PlacedNode]) -> tuple[str, ...]:
    names = dict.fromkeys(node.cluster for node in nodes)
    clusters = {cluster.name: cluster for cluster in problem.clusters}
    return tuple(name for name in names if not clusters[name].hosts)


def _placed(
    problem: Problem,
    pipeline: Pipeline,
    seats: Mapping[str, Sequence[Seat]],
    start: tuple[int, int],
) -> tuple[list[Rank], list[PlacedNode]]:
    """Return the ranks of one pipeline and its hosts.

    Parameters
    ----------
    seats
        By cluster, each of its nodes.
    start
        The number of the pipeline, and how many ranks come before it.
    """
    clusters = {cluster.name: cluster for cluster in problem.clusters}
    stages = pipeline.stages
    shares = {name: shares_of(own, stages) for name, own in clusters.items()}
    order = {
        name: iter(node_order(own, shares[name])) for name, own in clusters.items()
    }
    taken = {name: iter(own) for name, own in shares.items()}
    ranks: list[Rank] = []
    nodes: list[PlacedNode] = []
    last: tuple[str, int] | None = None
    used: Counter[tuple[str, int]] = Counter()
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
                raise InputError(msg, field=f"pipelines.{start[0]}.stages.{number}")
            if here != last:
                seat = seats[cluster.name][here[1]]
                nodes.append(
                    PlacedNode(
                        host=seat.host,
                        cluster=cluster.name,
                        first_rank=start[1] + len(ranks),
                        slots=0,
                        first_device=seat.first_device + used[here],
                    )
                )
                last = here
            ranks += _ranks(nodes[-1], (start[0], number), devices, coordinates)
            nodes[-1] = replace(nodes[-1], slots=nodes[-1].slots + devices)
            used[here] += devices
            left -= devices
    return ranks, nodes


def _ranks(
    node: PlacedNode,
    place: tuple[int, int],
    taken: int,
    coordinates: Iterator[tuple[int, int, int]],
) -> Iterator[Rank]:
    """Yield the ranks on a node's next ``taken`` devices.

    Parameters
    ----------
    place
        Pipeline and stage.
    """
    pipeline, stage = place
    for number in range(node.slots, node.slots + taken):
        dp, cp, tp = next(coordinates)
        rank, device = node.first_rank + number, node.first_device + number
        yield Rank(rank, node.host, device, node.cluster, stage, dp, cp, tp, pipeline)


def _coordinates(stage: Stage) -> Iterator[tuple[int, int, int]]:
    """Yield (dp, cp, tp) of a stage's devices, in rank order."""
    strategy = stage.strategy
    for dp in range(strategy.dp):
        for cp in range(strategy.cp):
            for tp in range(strategy.tp):
                yield dp, cp, tp


def host_of(cluster: Cluster, number: int, label: str) -> str:
    """Return the name of a cluster's node, a placeholder if the problem has none."""
    if cluster.hosts:
        return cluster.hosts[number]
    return f"{label}-node-{number + 1}"
