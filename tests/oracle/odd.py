"""Instances whose nodes are no powers of two, or unequal, and stages of any size."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from tests.oracle import wide
from tests.oracle.instances import (
    MAX_FREE_PLANS,
    MAX_PLANS,
    MAX_WIDE_PLANS,
    OVERLAPPING,
    WIDEST,
    Instance,
    count_plans,
)
from tests.oracle.nodes import room
from tests.oracle.problems import draw_problem
from tests.oracle.tables import draw_table

if TYPE_CHECKING:
    from hetopt.problem.cluster.cluster import Cluster

#: Devices of each node.
ODD = ((3,), (5,), (7,), (6, 6), (3, 3), (2, 1), (4, 3), (3, 2, 3), (5, 4), (4, 4, 3))
#: Sizes of stages of which each divides the next.
CHAINS = ((1, 2, 4, 8), (1, 3, 6), (1, 2, 6))


def make_odd(seed: int, *, widest: bool = False) -> Instance:
    """Draw an instance with odd nodes; ``widest`` as of ``instances.make_instance``.

    Some stage of some cluster always leaves devices of a node idle. Where P4 is to be
    relaxed, every size of stages divides the next, and none takes several nodes.
    """
    rng = Random(seed)
    schedule = OVERLAPPING[seed % len(OVERLAPPING)]
    most = MAX_FREE_PLANS if schedule == "free-1f1b" else MAX_PLANS
    size = 1.0
    while True:
        drawn = draw_problem(rng, schedule, None, pinned=False, size=size)
        batch = rng.choice((6, 8, 10, 12))
        problem = replace(
            drawn,
            clusters=tuple(with_nodes(own, rng.choice(ODD)) for own in drawn.clusters),
            training=replace(drawn.training, global_batch=batch),
        )
        sizes = rng.choice(CHAINS) if widest else range(1, 100)
        table = draw_table(rng, problem, size=size, sizes=sizes)
        odd = any(
            room(problem.clusters[j], own.devices, own.inside) * own.devices
            < problem.clusters[j].devices
            for part in table.slices
            for j, rows in enumerate(part.clusters)
            for own in rows.strategies
        )
        few = odd and count_plans(table) <= most
        if few and widest:
            few = all(
                own.devices <= problem.clusters[j].devices_per_node
                for part in table.slices
                for j, rows in enumerate(part.clusters)
                for own in rows.strategies
            )
        if few and widest:
            counted = wide.count_plans(table, WIDEST, MAX_WIDE_PLANS)
            few = counted <= MAX_WIDE_PLANS
        if few:
            return Instance(seed=seed, problem=problem, table=table)
        size *= 0.85


def with_nodes(cluster: Cluster, nodes: tuple[int, ...]) -> Cluster:
    return replace(
        cluster,
        nodes=len(nodes),
        devices_per_node=max(nodes),
        unequal=nodes if len(set(nodes)) > 1 else None,
        max_tp=min(cluster.max_tp, max(nodes)),
    )
