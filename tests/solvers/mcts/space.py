"""Which plans HetAuto's tree holds, by other code: nothing of hetopt.solvers.

A cluster that hosts stages lets no device idle, as far as strategies and counts of
stages permit, and recomputation is one for the plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from tests.oracle.brute_force import Shape


def is_held(problem: Problem, table: CostTable, shape: Shape) -> bool:
    """Whether HetAuto's tree has plans of a shape that brute force found."""
    stages, q, order, rows, hosted = shape
    left = stages
    for turn, count in enumerate(hosted):
        if count not in _counts(problem, table, q, order[turn:], left):
            return False
        left -= count
    return any(
        all(
            row in _rows(problem, table, q, j, count, level)
            for j, row, count in zip(order, rows, hosted, strict=True)
        )
        for level in _levels(table)
    )


def _levels(table: CostTable) -> set[str]:
    return {
        strategy.recompute
        for part in table.slices
        for own in part.clusters
        for strategy in own.strategies
    }


def _most(problem: Problem, table: CostTable, q: int, j: int, row: int) -> int:
    """Return the most stages of a cluster under a strategy."""
    room = table.cluster_devices[j] // int(table.at(q).clusters[j].devices[row])
    pins = problem.pins.of(table.cluster_names[j]).stages
    room = min(room, max(problem.stage_counts))
    return max((m for m in range(1, room + 1) if pins.permits(m)), default=0)


def _counts(
    problem: Problem, table: CostTable, q: int, order: tuple[int, ...], left: int
) -> set[int]:
    """Return how many stages the first of these clusters may host."""

    def all_in_use(j: int) -> set[int]:
        devices = table.at(q).clusters[j].devices.tolist()
        return {
            table.cluster_devices[j] // own
            for row, own in enumerate(devices)
            if table.cluster_devices[j] % own == 0
            and table.cluster_devices[j] // own <= _most(problem, table, q, j, row)
        }

    most = [
        max(
            (
                _most(problem, table, q, j, row)
                for row in range(len(table.at(q).clusters[j].strategies))
            ),
            default=0,
        )
        for j in order
    ]
    pins = problem.pins.of(table.cluster_names[order[0]]).stages
    least = max(1, left - sum(most[1:]))
    counts = {
        m
        for m in range(least, min(most[0], left - len(order) + 1) + 1)
        if pins.permits(m)
    }
    full = counts & all_in_use(order[0])
    both = full
    if len(order) == 2:
        both = {m for m in full if left - m in all_in_use(order[1])}
    return both or full or counts


def _rows(
    problem: Problem, table: CostTable, q: int, j: int, hosted: int, level: str
) -> set[int]:
    """Return the strategies of so many stages if the plan has that recomputation."""
    own = table.at(q).clusters[j]
    sizes: dict[str, dict[int, int]] = {}
    for row, strategy in enumerate(own.strategies):
        if _most(problem, table, q, j, row) >= hosted:
            sizes.setdefault(strategy.recompute, {})[row] = int(own.devices[row])
    largest = {
        name: {row for row, size in found.items() if size == max(found.values())}
        for name, found in sizes.items()
    }
    return largest.get(level) or set().union(*largest.values())
