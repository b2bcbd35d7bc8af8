"""Coefficients that a plan depends on, and problems in which one of them is changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.build import build_table
from hetopt.cost.table.ticks import TOO_LONG_NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.cluster.cluster import ClusterLink, ClusterLinks
    from hetopt.problem.problem import Problem
    from hetopt.results.crossing import MoveKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One coefficient, or several that are changed by the same factor.

    Attributes
    ----------
    kind
        ``speed``: of all computation on a cluster's devices; ``memory``: per device;
        ``link``: all bandwidths of a link between two clusters; ``uplink``.
    clusters
        One, or both ends of a link.
    """

    kind: MoveKind
    clusters: tuple[str, ...]

    def words(self) -> str:
        """Return the coefficient's name for people to read."""
        return move_text(self.kind, self.clusters)

    def is_used(self, plan: Plan) -> bool:
        """Whether a smaller coefficient could make the plan worse."""
        used = {stage.cluster for stage in plan.pipeline.stages}
        return used.issuperset(self.clusters)

    def applied(
        self, problem: Problem, table: CostTable, factor: float
    ) -> tuple[Problem, CostTable]:
        """Return problem and table with the coefficient times ``factor``, above 0."""
        if self.kind == "speed":
            return problem, _quicker(table, self.clusters[0], factor)
        moved = self.in_problem(problem, factor)
        return moved, build_table(moved)

    def in_problem(self, problem: Problem, factor: float) -> Problem:
        """Return the problem with its value times ``factor``; not for ``speed``."""
        if self.kind == "link":
            return replace(problem, links=_wider(problem.links, self.clusters, factor))
        return replace(
            problem,
            clusters=tuple(
                each
                if each.name not in self.clusters
                else replace(
                    each, memory_bytes=max(1, round(each.memory_bytes * factor))
                )
                if self.kind == "memory"
                else replace(
                    each, uplink_bytes_per_s=(each.uplink_bytes_per_s or 0.0) * factor
                )
                for each in problem.clusters
            ),
        )


def move_text(kind: MoveKind, clusters: tuple[str, ...]) -> str:
    """Return a coefficient's name for people to read."""
    ends = "-".join(clusters)
    return f"link {ends}" if kind == "link" else f"{kind} of {ends}"


def moves_of(problem: Problem) -> Iterator[Move]:
    """Yield all coefficients of a problem that can be changed."""
    for cluster in problem.clusters:
        yield Move(kind="speed", clusters=(cluster.name,))
        yield Move(kind="memory", clusters=(cluster.name,))
        if cluster.uplink_bytes_per_s is not None:
            yield Move(kind="uplink", clusters=(cluster.name,))
    yield from links_of(problem)


def links_of(problem: Problem) -> Iterator[Move]:
    """Yield the links between clusters."""
    for first, second in combinations([each.name for each in problem.clusters], 2):
        if problem.links.between(first, second) is not None:
            yield Move(kind="link", clusters=(first, second))


def _quicker(table: CostTable, cluster: str, factor: float) -> CostTable:
    """Return a table in which computation on a cluster takes 1 / factor as long."""
    j = table.cluster_names.index(cluster)

    def scaled(times: NDArray[np.int64]) -> NDArray[np.int64]:
        moved = np.minimum(np.rint(times / factor), TOO_LONG_NS).astype(np.int64)
        return np.where(times >= TOO_LONG_NS, times, np.maximum(moved, 1))

    def quicker(own: ClusterTable) -> ClusterTable:
        backward_ns, weight_ns = scaled(own.backward_ns), own.weight_ns
        if weight_ns is not None:
            moved = np.rint(weight_ns / factor).astype(np.int64)
            weight_ns = np.minimum(moved, backward_ns // 2)
        return replace(
            own,
            forward_ns=scaled(own.forward_ns),
            backward_ns=backward_ns,
            weight_ns=weight_ns,
        )

    slices = tuple(
        replace(
            part,
            clusters=tuple(
                quicker(own) if i == j else own for i, own in enumerate(part.clusters)
            ),
        )
        for part in table.slices
    )
    return replace(table, slices=slices, per_unit=None)


def _wider(links: ClusterLinks, ends: tuple[str, ...], factor: float) -> ClusterLinks:
    """Return links of which one has ``factor`` times the bandwidths."""
    link = links.between(*ends)
    if link is None:
        return links
    names = ("capacity_bytes_per_s", "node_bytes_per_s", "connection_bytes_per_s")
    changes = {
        name: value * factor
        for name in names
        if (value := getattr(link, name)) is not None
    }
    wider: ClusterLink = replace(link, **changes)
    return replace(links, pairs={**links.pairs, frozenset(ends): wider})
