"""What limits a plan, and questions about the time that more resources would save."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from hetopt.base.fields import Positive, Whole
from hetopt.base.file_record import FileRecord
from hetopt.schedule.run import simulate
from hetopt.whatif.moves import links_of
from hetopt.whatif.variants import Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hetopt.plans.plan import Plan
    from hetopt.pricing.price import Price
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem

_GB = 10**9

Kind = Literal["memory", "node", "link", "unused"]
#: Passes of a stage; transfers between any two; adding up gradients of a stage.
PathKind = Literal["passes", "transfers", "gradients"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question about a plan, and the problem whose solution answers it.

    Attributes
    ----------
    kind
        ``memory``: one more GB on each device of a cluster; ``node``: one more node of
        a cluster; ``link``: twice the bandwidths of a link; ``unused``: a cluster that
        the plan leaves unused has to be used.
    clusters
        The cluster, or both ends of a link.
    """

    kind: Kind
    clusters: tuple[str, ...]
    variant: Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(FileRecord):
    """The stages that limit a plan.

    Attributes
    ----------
    pace_stage
        The stage that computes longest per micro-batch; the others wait for it.
    pace_share
        The share of the simulated iteration in which it computes.
    full_stage
        The stage whose devices' memory is the fullest.
    full_share
        Share of usable memory that this stage needs.
    """

    pace_stage: Whole
    pace_share: float
    full_stage: Whole
    full_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPart(FileRecord):
    """A part of the critical path: nothing shortens the run that leaves it as it is.

    Attributes
    ----------
    stage
        None for transfers.
    share
        Of the simulated iteration.
    """

    kind: PathKind
    stage: Whole | None
    share: Positive


def limits_of(price: Price) -> Limits:
    """Return what limits a plan of this price."""
    times = price.times
    busy = [
        forward + backward
        for forward, backward in zip(times.forward_ns, times.backward_ns, strict=True)
    ]
    pace = busy.index(max(busy))
    shares = [
        need / usable
        for need, usable in zip(price.memory_bytes, price.usable_bytes, strict=True)
    ]
    full = shares.index(max(shares))
    return Limits(
        pace_stage=pace,
        pace_share=1 - price.idle_share[pace],
        full_stage=full,
        full_share=shares[full],
    )


def critical_parts(price: Price) -> list[PathPart]:
    """Return what a longest chain of events of the simulated run is made of.

    The largest part first; their shares add up to 1.
    """
    run = simulate(price.times)
    spent: dict[tuple[PathKind, int | None], int] = {}
    for event in run.critical_path():
        key: tuple[PathKind, int | None] = ("passes", event.stage)
        if event.kind == "sync":
            key = "gradients", event.stage
        elif event.kind not in ("forward", "backward", "weight"):
            key = "transfers", None
        spent[key] = spent.get(key, 0) + event.end_ns - event.start_ns
    parts = [
        PathPart(kind=kind, stage=stage, share=taken / run.makespan_ns)
        for (kind, stage), taken in spent.items()
        if taken
    ]
    return sorted(parts, key=lambda part: -part.share)


def questions(problem: Problem, plan: Plan) -> Iterator[Question]:
    """Yield the questions about a plan, those about its own clusters first."""
    for cluster in problem.clusters:
        if cluster.name in plan.clusters:
            yield _changed(problem, "memory", cluster, _roomier)
            yield _changed(problem, "node", cluster, _larger)
    for link in links_of(problem):
        yield Question(
            kind="link",
            clusters=link.clusters,
            variant=Variant(
                change=f"{link.words()} twice as fast",
                problem=link.in_problem(problem, 2.0),
            ),
        )
    for cluster in problem.usable_clusters:
        if cluster.name not in plan.clusters:
            yield Question(
                kind="unused",
                clusters=(cluster.name,),
                variant=Variant(
                    change=f"{cluster.name} used", problem=_using(problem, cluster)
                ),
            )


def _changed(
    problem: Problem,
    kind: Kind,
    cluster: Cluster,
    change: Callable[[Cluster], Cluster],
) -> Question:
    changed = replace(
        problem,
        clusters=tuple(
            change(each) if each is cluster else each for each in problem.clusters
        ),
    )
    words = {"memory": "one more GB a device of", "node": "one more node of"}
    return Question(
        kind=kind,
        clusters=(cluster.name,),
        variant=Variant(change=f"{words[kind]} {cluster.name}", problem=changed),
    )


def _roomier(cluster: Cluster) -> Cluster:
    return replace(cluster, memory_bytes=cluster.memory_bytes + _GB)


def _larger(cluster: Cluster) -> Cluster:
    # Drop host names: there is one per node, and they affect no cost. If nodes are
    # unequal, the new one is as large as the largest.
    more = (cluster.devices_per_node,)
    unequal = None if cluster.unequal is None else cluster.unequal + more
    nodes, domain = cluster.nodes + 1, cluster.domain
    if domain is not None and cluster.one_domain:
        domain = replace(domain, nodes=max(domain.nodes, nodes))
    return replace(cluster, nodes=nodes, unequal=unequal, domain=domain, hosts=None)


def _using(problem: Problem, cluster: Cluster) -> Problem:
    """Return the problem with a pin by which a cluster has to host a stage."""
    pins = problem.pins
    own = pins.of(cluster.name)
    stages = replace(own.stages, forbidden=own.stages.forbidden | {0})
    clusters = {**pins.clusters, cluster.name: replace(own, stages=stages)}
    return replace(problem, pins=replace(pins, clusters=clusters))
