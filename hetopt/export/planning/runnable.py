"""The plans that a launcher can run, for a search that branches over them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.export.job import parts_of
from hetopt.export.planning.limits import broken, is_shared, sharing, split, why_not
from hetopt.export.registry import launcher, limits_of
from hetopt.solvers.search.branchings.runnable import InCommon, Launchable

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.solvers.search.branchings.schedules import ScheduleVariant


def launchable(name: str, problem: Problem) -> Launchable:
    """Return which plans a launcher can run; InputError if it has no limits."""
    own, together = _Named(name), limits_of(name).together
    in_common = None
    if together is not None:
        in_common = InCommon(
            values=together.values(problem),
            sharing=own.sharing,
            is_shared=own.is_shared,
        )
    return Launchable(
        name=name,
        broken=own.broken,
        split=own.split,
        passed_over=partial(own.passed_over, problem),
        together=in_common,
    )


def not_relaxed(name: str, problem: Problem) -> str | None:
    """Return why a launcher's plans keep all principles; None: they need not."""
    runtime = launcher(name)
    if not runtime.divides_hosts:
        return (
            f"lets stages on one node stand apart, but {runtime.title} starts all "
            "ranks of a host at once"
        )
    if limits_of(name).equal_ends and problem.model.tied:
        return (
            f"has no meaning for {runtime.title} with tied embeddings, whose ends it "
            "wants alike"
        )
    return None


@dataclass(frozen=True, slots=True)
class _Named:
    """A launcher by its name: limits have functions that workers cannot be sent."""

    name: str

    def broken(self, problem: Problem, plan: Plan) -> str | None:
        return broken(limits_of(self.name), problem, plan)

    def split(
        self, problem: Problem, table: CostTable, rule: str
    ) -> list[tuple[Problem, CostTable]]:
        return split(limits_of(self.name), problem, table, rule)

    def sharing(
        self, problem: Problem, table: CostTable, value: str
    ) -> tuple[Problem, CostTable]:
        return sharing(limits_of(self.name), problem, table, value)

    def is_shared(self, problem: Problem, plan: Plan) -> bool:
        together = limits_of(self.name).together
        assert together is not None
        return is_shared(together, parts_of(problem, plan))

    def passed_over(self, problem: Problem, variant: ScheduleVariant) -> str | None:
        """Return why it does not run a schedule; None: it does."""
        limits = limits_of(self.name)
        if variant.schedule not in limits.schedules:
            return f"{self.name} does not run it"
        try:
            return why_not(limits, variant.of(problem))
        except InputError:
            # The problem cannot have this schedule, which others say.
            return None
