"""Brute force over the restricted spaces of ``uniform`` and ``amp``.

All plans of the pruned space are tried (``tests.oracle.brute_force``), and those kept
that are as the heuristics' definition has them (HetAuto section 7.2):

* ``amp``: one strategy for all stages, cp 1, any units.
* ``uniform``: one strategy for all stages; body units per stage differ by at most one,
  and the stages that hold more are the first or the last ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.oracle import brute_force

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from tests.oracle.brute_force import Found


def plans(problem: Problem, table: CostTable, *, equal: bool) -> Iterator[Found]:
    """Yield every plan of one strategy, and of equal stages if asked to."""
    for part in table.slices:
        if not problem.pins.microbatches.permits(part.microbatches):
            continue
        for order, strategies, stages in brute_force._skeletons(problem, table, part):
            used = {
                part.clusters[j].strategies[k]
                for j, k in zip(order, strategies, strict=True)
            }
            if len(used) > 1 or not (equal or next(iter(used)).cp == 1):
                continue
            shape = (sum(stages), part.microbatches, order, strategies, stages)
            for found in brute_force._splits(problem, table, part, shape):
                if not equal or _is_equal(table, found.units):
                    yield found


def _is_equal(table: CostTable, units: tuple[int, ...]) -> bool:
    body = []
    first = 0
    for held in units:
        body.append(sum(table.body[k] for k in table.units[first : first + held]))
        first += held
    falls = sorted(body, reverse=True)
    return max(body) - min(body) <= 1 and body in (falls, falls[::-1])
