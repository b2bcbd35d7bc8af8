"""Who hosts which stage where P3 or P4 is relaxed: all sequences, one by one.

A *run* is a longest row of stages of one cluster with one strategy; a sequence of
stages is written as its runs, so that a cluster may be named several times.

How the open ends are read:

* The stages of a cluster find a place in its nodes together. ``stages`` and
  ``units`` pins count all of a cluster's stages.
* A pinned order names every cluster once: its stages then stand together whether
  P3 is relaxed or not. A forbidden pair says nothing within a cluster.
* ``falling-tp``: along all stages of a cluster tp never rises, whatever stands
  between them.
"""

from __future__ import annotations

import math
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from tests.oracle.nodes import fits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles

    #: Cluster, strategy index.
    Host = tuple[int, int]
    #: Cluster, strategy and stages of each run.
    Runs = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def sequences(
    table: CostTable, part: TableSlice, principles: Principles
) -> Iterator[list[Host]]:
    """Yield the host of every stage, pins aside."""
    body = sum(table.body[kind] for kind in table.units)
    hosts = [
        (j, k)
        for j, own in enumerate(part.clusters)
        for k in range(len(own.strategies))
    ]

    def grow(line: list[Host], left: list[int]) -> Iterator[list[Host]]:
        if line:
            yield line
        if len(line) == body:
            return
        for j, k in hosts:
            devices = part.clusters[j].strategies[k].devices
            if devices > left[j] or not _allowed(part, line, (j, k), principles):
                continue
            less = list(left)
            less[j] -= devices
            yield from grow([*line, (j, k)], less)

    yield from grow([], list(table.cluster_devices))


def _allowed(
    part: TableSlice, line: Sequence[Host], after: Host, principles: Principles
) -> bool:
    j, k = after
    own = [strategy for cluster, strategy in line if cluster == j]
    if not own:
        return True
    if principles.consecutive and line[-1][0] != j:
        return False
    if principles.sharing == "one":
        return own[-1] == k
    strategies = part.clusters[j].strategies
    return principles.sharing == "any" or strategies[k].tp <= strategies[own[-1]].tp


def _packs(problem: Problem, part: TableSlice, line: Sequence[Host]) -> bool:
    """Whether the stages find a place in the nodes of their clusters."""
    needs: dict[int, list[tuple[int, int]]] = {}
    for j, k in line:
        strategy = part.clusters[j].strategies[k]
        needs.setdefault(j, []).append((strategy.devices, strategy.inside))
    return all(fits(problem.clusters[j], own) for j, own in needs.items())


def skeletons(
    problem: Problem, table: CostTable, part: TableSlice, principles: Principles
) -> Iterator[Runs]:
    """Yield the runs of every sequence that the pins permit."""
    pins = problem.pins
    names = table.cluster_names
    for line in sequences(table, part, principles):
        if not pins.stages.permits(len(line)):
            continue
        named = tuple(names[j] for j, _ in groupby(j for j, _ in line))
        if pins.order is not None and named != pins.order:
            continue
        if any(pair in pins.forbidden_next for pair in pairwise(named)):
            continue
        met = set(pairwise(named))
        if part.tied_ns is not None:
            met.add((named[0], named[-1]))
        if any(a != b and problem.links.between(a, b) is None for a, b in met):
            continue
        if not _packs(problem, part, line):
            continue
        counts = [sum(j == own for own, _ in line) for j in range(len(names))]
        if not all(
            pins.of(name).stages.permits(count)
            and (count or pins.of(name).units.permits(0))
            for name, count in zip(names, counts, strict=True)
        ):
            continue
        runs = [(host, len(list(group))) for host, group in groupby(line)]
        yield (
            tuple(j for (j, _), _ in runs),
            tuple(k for (_, k), _ in runs),
            tuple(count for _, count in runs),
        )


def count_plans(table: CostTable, principles: Principles, most: int) -> int:
    """Plans of the space, memory and pins aside; stops counting above ``most``."""
    body = sum(table.body[kind] for kind in table.units)
    total = 0
    for part in table.slices:
        for line in sequences(table, part, principles):
            total += math.comb(body - 1, len(line) - 1)
            if total > most:
                return total
    return total
