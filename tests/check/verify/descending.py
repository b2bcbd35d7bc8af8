"""The search below bounds goes down to the optima that brute force finds."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

from hetopt.check.plan.plan import check_plan
from hetopt.check.verify.bound import PS_PER_NS
from hetopt.check.verify.tasks import TOO_LONG_PS, BoundsTask, SearchTask, Verified
from hetopt.problem.training.principles import PRUNED
from tests.oracle import brute_force

if TYPE_CHECKING:
    from hetopt.check.verify.findings import Found
    from tests.oracle.instances import Instance


def verified(instance: Instance, end: float | None = None) -> Verified:
    """Return what tasks about the closed form of an instance have in common."""
    return Verified(
        problem=instance.problem,
        table=instance.table,
        searched=instance.table,
        principles=PRUNED,
        objective="closed",
        end=end,
    )


def searched(instance: Instance, p: int, q: int, bound: int) -> Found | None:
    """Search one program for plans below a bound; None if the relaxation suffices."""
    of = verified(instance)
    ranges = BoundsTask(q, {p: bound}).run(of)
    if p not in ranges:
        return None
    return SearchTask(q, {p: bound}, {p: ranges[p] or ()}).run(of)[p]


def is_none(found: Found | None) -> bool:
    """Whether there is no plan below the bound."""
    return found is None or (found.plan is None and not found.open)


def ensure_least(instance: Instance) -> int:
    """Have the search go down to the optima of an instance; return how many.

    With several chunks it may leave some open, as plans that paths leave are too many.
    """
    problem, table = instance.problem, instance.table
    programs = brute_force.solve(problem, table).programs
    counts, reached = {part.microbatches for part in table.slices}, 0
    for p, q in problem.programs:
        if (p, q) in programs:
            exact = float(programs[p, q].closed_form_ns * PS_PER_NS)
            least, settled = _descend(instance, p, q)
            assert settled or table.chunks > 1
            assert least >= exact * (1 - 1e-8)
            assert not settled or least <= exact * (1 + 1e-8)
            reached += settled
        elif q in counts:
            assert is_none(searched(instance, p, q, TOO_LONG_PS))
    return reached


def _descend(instance: Instance, p: int, q: int) -> tuple[float, bool]:
    """Return the least closed form that the search finds, in ps, and if it ended."""
    bound, least = TOO_LONG_PS, 0.0
    while True:
        outcome = searched(instance, p, q, bound)
        if outcome is None or outcome.plan is None:
            return least, is_none(outcome)
        pipeline = outcome.plan.pipeline
        assert (len(pipeline.stages), pipeline.microbatches) == (p, q)
        checked = check_plan(instance.problem, instance.table, outcome.plan)
        least = checked.closed_form_s * 1e12
        assert least < bound
        bound = floor(least)
