"""Coefficients that a plan depends on, and problems in which one of them is changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.plans.plan import Plan
    from hetopt.problem.cluster.links import ClusterLink, ClusterLinks
    from hetopt.problem.problem import Problem
    from hetopt.results.crossing import MoveKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One coefficient, or several that are changed by the same factor.

    Attributes
    ----------
    kind
        ``speed``: of all computation on a cluster's devices, but not of communication
        between them; ``memory``: per device;
        ``link``: all bandwidths of a link between two clusters; ``uplink``.
    clusters
        One, or both ends of a link.
    """

    kind: MoveKind
    clusters: tuple[str, ...]

    def words(self) -> str:
        """Return the coefficient's name for people to read."""
        ends = "-".join(self.clusters)
        return f"link {ends}" if self.kind == "link" else f"{self.kind} of {ends}"

    def is_used(self, plan: Plan) -> bool:
        """Whether a smaller coefficient could make the plan worse."""
        return {*plan.clusters}.issuperset(self.clusters)

    def in_problem(self, problem: Problem, factor: float) -> Problem:
        """Return the problem with its value times ``factor``, above 0."""
        if self.kind == "speed":
            return _quicker(problem, self.clusters[0], factor)
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


def _quicker(problem: Problem, cluster: str, factor: float) -> Problem:
    """Return a problem in which computation on a cluster takes 1 / factor as long."""
    known = problem.calibration
    speed = {**known.speed, cluster: known.speed.get(cluster, 1.0) * factor}
    return replace(problem, calibration=replace(known, speed=speed))


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
