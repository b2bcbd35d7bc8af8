"""The latency table of one pipeline among several."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from hetopt.cost.build import build_table, coefficients
from hetopt.cost.communication.between_pipelines import Between, slowest_way
from hetopt.cost.correction import with_corrected_links
from hetopt.cost.ranges import ensure_sums_fit
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.remembered import RememberedSource
from hetopt.problem.division import part_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from hetopt.cost.sources.source import LatencySource
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem


class Part(NamedTuple):
    """Problem and table of one pipeline."""

    problem: Problem
    table: CostTable


def part(
    problem: Problem,
    division: Sequence[Mapping[str, tuple[int, ...]]],
    number: int,
    batch: int,
    source: LatencySource | None = None,
    whole: Problem | None = None,
) -> Part:
    """Return the problem and the table of one pipeline.

    The table's g includes the time of adding up gradients over the pipelines
    (``hetopt.cost.communication.between_pipelines``); the rest is as ``build_table``
    has it.

    Parameters
    ----------
    division, number, batch
        See ``part_of``.
    source
        That of the whole problem; see ``build_table``.
    whole
        If one pipeline has all nodes: see ``build_table``.

    Raises
    ------
    InputError
        As ``build_table``.
    """
    own = part_of(problem, division, number, batch)
    if len(division) == 1:
        return Part(own, build_table(own, source, whole=whole))
    corrected = with_corrected_links(problem)
    between = {
        each.name: Between(
            way=slowest_way(corrected, division, number, each.name),
            pipelines=len(division),
        )
        for each in own.clusters
    }
    table = coefficients(own, source, between)
    ensure_sums_fit(table)
    return Part(own, replace(table, per_unit=None))


def by_length(
    problem: Problem,
    division: Sequence[Mapping[str, tuple[int, ...]]],
    number: int,
    sources: Mapping[int, LatencySource],
    whole: Problem | None = None,
) -> dict[int, Part]:
    """Return one pipeline's problem and table for each length, the longest first.

    Every part is built for the global batch, as if all sequences had that length. So a
    micro-batch of n sequences has a cost only if n divides the global batch.

    Parameters
    ----------
    division, number
        See ``part``. A division into one pipeline gives it all clusters.
    sources
        See ``sources_by_length``.
    whole
        See ``part``.

    Raises
    ------
    InputError
        As ``build_table``.
    """
    batch = problem.training.global_batch
    return {
        tokens: part(problem.of_length(tokens), division, number, batch, source, whole)
        for tokens, source in sources.items()
    }


def sources_by_length(problem: Problem) -> dict[int, LatencySource]:
    """Return the latency source of each length, the longest first; they cache times."""
    return {
        tokens: RememberedSource(latency_sources(problem.of_length(tokens)))
        for tokens in problem.training.sequences
    }


def depends_on(
    problem: Problem, division: Sequence[Mapping[str, tuple[int, ...]]], number: int
) -> Hashable:
    """Return a key: with equal keys, a pipeline's problem and table are the same.

    Parameters
    ----------
    division, number
        See ``part_of``. Keys compare divisions of the same problem.
    """
    if len(division) == 1:
        return "all"
    own = part_of(problem, division, number, 1)
    whole = with_corrected_links(problem)
    names = [each.name for each in own.clusters]
    return (
        len(division),
        tuple((name, division[number][name]) for name in names),
        tuple(
            (each.nics_per_node, each.inter_node, each.uplink_bytes_per_s)
            for each in own.clusters
        ),
        tuple(own.links.between(*pair) for pair in combinations(names, 2)),
        tuple(slowest_way(whole, division, number, name) for name in names),
    )
