"""Tables of one problem under several schedules, which share what is common to them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.cost.build import under_schedule, unplaced
from hetopt.cost.per_unit.unit_table import has_unit_table
from hetopt.cost.ranges import ensure_sums_fit
from hetopt.problem.digest import problem_digest
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem


class TablesBySchedule:
    """Makes the tables of a problem under other schedules than its own.

    Each is what ``build_table`` returns. Slices of schedules that place the model's own
    units are the same objects.

    Parameters
    ----------
    problem, table
        The problem under one schedule, with its table.
    """

    def __init__(self, problem: Problem, table: CostTable) -> None:
        self._unplaced: dict[tuple[bool, bool], CostTable] = {}
        training = problem.training
        is_unplaced = table.chunks == 1 and table.pairs is None
        if is_unplaced and not training.moe.overlap:
            self._unplaced[_what_differs(problem)] = table

    def of(self, problem: Problem) -> CostTable:
        """Return the table of the problem under another schedule.

        Raises
        ------
        InputError
            See ``build_table``.
        """
        key, training = _what_differs(problem), problem.training
        if key not in self._unplaced:
            self._unplaced[key] = unplaced(problem)
        table = replace(
            self._unplaced[key],
            problem_digest=problem_digest(problem),
            schedule=training.schedule,
            warmup_epsilon=training.epsilon,
        )
        table = under_schedule(table, problem)
        ensure_sums_fit(table)
        return table


def _what_differs(problem: Problem) -> tuple[bool, bool]:
    """Return what a problem's schedule changes in the costs of the model's units."""
    return rule_of(problem.training.schedule).splits, has_unit_table(problem)
