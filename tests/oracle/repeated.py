"""Instances some of whose clusters are repeated, cost for cost."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.table.slice import Layout
from hetopt.problem.digest import problem_digest
from tests.oracle.instances import MAX_PLANS, Instance, count_plans, make_instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName


def make_repeated(
    seed: int, *, schedule: ScheduleName | None = None, most_plans: int = MAX_PLANS
) -> tuple[Instance, tuple[int, ...]]:
    """Draw an instance with repeated clusters, and the first of every cluster's kind.

    Repeated clusters stand beside each other or apart, one or two are repeated, up
    to four clusters in all. Boundaries between two of a kind cost what they like.
    """
    rng = Random(seed)
    while True:
        drawn = make_instance(
            rng.randrange(10**6),
            schedule=schedule,
            pinned=False,
            clusters=rng.choice((1, 2, 2)),
        )
        own = range(len(drawn.problem.clusters))
        kinds = [*own, *rng.choices(own, k=rng.choice((1, 2)))]
        rng.shuffle(kinds)
        kinds = [sorted(set(kinds), key=kinds.index).index(j) for j in kinds]
        problem = _problem(drawn.problem, kinds)
        table = _table(rng, drawn.table, problem, kinds)
        if table.slices and count_plans(table) <= most_plans:
            instance = Instance(seed=seed, problem=problem, table=table)
            return instance, tuple(kinds.index(kind) for kind in kinds)


def _problem(problem: Problem, kinds: Sequence[int]) -> Problem:
    clusters = tuple(
        replace(problem.clusters[kind], name=f"{problem.clusters[kind].name}{index}")
        for index, kind in enumerate(kinds)
    )
    named = dict(problem.training.recompute)
    recompute = {
        own.name: named[problem.clusters[kind].name]
        for own, kind in zip(clusters, kinds, strict=True)
        if problem.clusters[kind].name in named
    }
    training = replace(problem.training, recompute=recompute)
    return replace(problem, clusters=clusters, training=training)


def _table(
    rng: Random, table: CostTable, problem: Problem, kinds: Sequence[int]
) -> CostTable:
    return replace(
        table,
        problem_digest=problem_digest(problem),
        cluster_names=tuple(cluster.name for cluster in problem.clusters),
        cluster_devices=tuple(table.cluster_devices[kind] for kind in kinds),
        usable_bytes=tuple(table.usable_bytes[kind] for kind in kinds),
        sources=tuple(table.sources[kind] for kind in kinds),
        peak_flops=tuple(table.peak_flops[kind] for kind in kinds),
        slices=tuple(_slice(rng, part, kinds) for part in table.slices),
    )


def _slice(rng: Random, part: TableSlice, kinds: Sequence[int]) -> TableSlice:
    layouts: list[Layout] = []
    origin: list[int] = []
    clusters = []
    for index, kind in enumerate(kinds):
        own = [a for a, layout in enumerate(part.layouts) if layout.cluster == kind]
        number = {a: len(origin) + place for place, a in enumerate(own)}
        origin += own
        layouts += [replace(part.layouts[a], cluster=index) for a in own]
        cluster = part.clusters[kind]
        layout = [number[int(a)] for a in cluster.layout]
        clusters.append(replace(cluster, layout=np.array(layout, dtype=np.int64)))
    hosts = np.array([layout.cluster for layout in layouts])
    of_kind = np.array(kinds)[hosts]
    # Of one kind, but not the same cluster.
    twins = (of_kind[:, None] == of_kind) & (hosts[:, None] != hosts)
    grid = np.ix_(range(len(part.transfer_ns)), origin, origin)
    factor = rng.choice((0.5, 1.0, 3.0))

    def across(cost: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(twins, (factor * cost).astype(np.int64) + 1, cost)

    return replace(
        part,
        clusters=tuple(clusters),
        layouts=tuple(layouts),
        transfer_ns=across(part.transfer_ns[grid]),
        occupancy_ns=across(part.occupancy_ns[grid]),
        resharding=part.resharding[grid],
        tied_ns=(
            None
            if part.tied_ns is None
            else across(part.tied_ns[np.ix_(origin, origin)])
        ),
    )
