"""The two long steps of verifying, as tasks of one q that any process can run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hetopt.base.deadline import Deadline, Stopped
from hetopt.base.run_until import run_in_time
from hetopt.check.verify.bound import (
    PS_PER_NS,
    OutOfTime,
    unproven,
    unproven_excess,
    unproven_ranges,
)
from hetopt.check.verify.chunks import of_paths
from hetopt.check.verify.plans_left import search_simulated
from hetopt.check.verify.search import search
from hetopt.check.verify.uneven import search_hosts
from hetopt.cost.table.ticks import LONGEST_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from hetopt.check.verify.findings import Found
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles
    from hetopt.results.result import Objective

#: Lower bound in ps that stands for a program without a plan.
TOO_LONG_PS = PS_PER_NS * LONGEST_NS + 1

#: By stage count, the ranges of lambda, or of the largest excess, in ns on which a
#: bound is not proven; None if the ranges are not known.
Weak = dict[int, tuple[tuple[int, int], ...] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What all tasks of a certificate have in common.

    Attributes
    ----------
    table, searched
        The table of the certificate, and the one that bounds and searches use.
    objective
        What the bounds are on.
    end
        Deadline on the clock of ``time.monotonic``; None: there is none.
    """

    problem: Problem
    table: CostTable
    searched: CostTable
    principles: Principles
    objective: Objective
    end: float | None


class BoundsTask(NamedTuple):
    """Derive the bounds of one q again; bounds in ps by stage count."""

    microbatches: int
    bounds: Mapping[int, int]

    def run(self, of: Verified) -> Weak:
        """Return the stage counts whose bound the relaxation does not prove.

        Raises
        ------
        OutOfTime
            The end was reached.
        """
        q, bounds = self
        if of.table.layout is not None:
            # The plans of a layout are so few that all of them are searched.
            return dict.fromkeys(bounds, ())
        # A program without plans is too slow in closed form, whatever is minimised.
        if _is_closed(of, bounds) and not of.principles.relaxed:
            ranges = unproven_ranges(of.problem, of.searched, q, bounds, end=of.end)
            return {p: tuple(pairs) for p, pairs in ranges.items()}
        rest = of.principles, of.objective, of.end
        failed = unproven(of.problem, of.searched, q, bounds, *rest)
        if not of_paths(of.table, of.objective):
            return dict.fromkeys(failed)
        open_ = {p: bounds[p] for p in failed}
        found = unproven_excess(
            of.problem,
            of.searched,
            q,
            open_,
            principles=of.principles,
            end=of.end,
        )
        if of.principles.relaxed:
            return dict.fromkeys(found)
        return {p: tuple(pairs) for p, pairs in found.items()}


class SearchTask(NamedTuple):
    """Search one q for plans below its bounds, all of them finite or none.

    See ``search`` and ``plans_left``.
    """

    microbatches: int
    bounds: Mapping[int, int]
    ranges: Mapping[int, tuple[tuple[int, int], ...]]

    def run(self, of: Verified) -> dict[int, Found]:
        """Return the outcome by stage count; raises OutOfTime as ``search`` does."""
        q, bounds, ranges = self
        if of.table.layout is not None:
            rest = of.objective, of.end
            return {
                p: search_hosts(of.problem, of.table, q, bound, *rest)
                for p, bound in bounds.items()
            }
        if _is_closed(of, bounds):
            return search(of.problem, of.searched, q, bounds, ranges, of.end)
        # The closed form of several chunks leaves sharing out.
        table = of.table if of.objective == "simulated" else of.searched
        how = of.end, of.objective
        return {
            p: search_simulated(of.problem, table, q, (p, bound), ranges[p], *how)
            for p, bound in bounds.items()
        }


def _is_closed(of: Verified, bounds: Mapping[int, int]) -> bool:
    """Whether bounds are on lambda; if not, they are all finite."""
    finite = min(bounds.values()) < TOO_LONG_PS
    return not (of_paths(of.table, of.objective) and finite)


def make(
    payload: Sequence[Verified], shared: Any, say: Callable[[Any], None]
) -> Callable[[Any], Any]:
    """Return the function that runs a task; it returns None after the deadline.

    Parameters
    ----------
    payload
        By the numbers of the certificates, with which tasks are given.
    """

    def run(
        numbered: tuple[int, BoundsTask | SearchTask],
    ) -> Weak | dict[int, Found] | None:
        number, task = numbered
        of = payload[number]
        left_s = None if of.end is None else of.end - time.monotonic()
        try:
            return run_in_time(Deadline.after(left_s), lambda: task.run(of))
        except (OutOfTime, Stopped):
            return None

    return run
