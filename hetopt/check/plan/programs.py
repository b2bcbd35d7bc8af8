"""Which (p, q) a result has to settle."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem


def all_programs(problem: Problem, table: CostTable) -> Iterator[tuple[int, int]]:
    """Yield every (p, q) that needs a settlement.

    Not those where pins forbid p or q, no cluster has a strategy at q, the clusters
    have no room for p stages, or the schedule does not run p stages with q.
    """
    body = sum(table.body[kind] for kind in table.units)
    for part in table.slices:
        if not problem.pins.microbatches.permits(part.microbatches):
            continue
        room = sum(int(own.max_stages.max(initial=0)) for own in part.clusters)
        chunked = problem.training.chunks > 1
        stages = range(1 + chunked, min(body, room) + 1)
        if table.layout is not None:
            only = len(table.layout) // table.chunks
            stages = range(only, min(only, room) + 1)
        for p in stages:
            fits = not chunked or part.microbatches % p == 0
            fits = fits and (table.pairs is None or part.microbatches > p)
            if fits and problem.pins.stages.permits(p):
                yield p, part.microbatches


def equal_stages(problem: Problem) -> Iterator[tuple[int, int]]:
    """Yield every (p, q) of UniAP, whose stages have equally many devices."""
    cluster, batch = problem.clusters[0], problem.training.global_batch
    domains = (problem.pins.stages, problem.pins.of(cluster.name).stages)
    body = len(problem.model.units) - 2
    for p in range(1, min(body, cluster.devices) + 1):
        if cluster.devices % p or not all(domain.permits(p) for domain in domains):
            continue
        for q in range(1, batch + 1):
            if batch % q == 0 and problem.pins.microbatches.permits(q):
                yield p, q
