"""The exact value of any decision on a problem, or that it is no plan."""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from hetopt.formulations.chain import Chain
from hetopt.formulations.program import ProgramData
from hetopt.solvers.decisions.exact import exact_value

if TYPE_CHECKING:
    from hetopt.cost.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.problem.problem import Problem


class Pricer:
    """Prices decisions of one problem that keep to its pins and fit into memory."""

    def __init__(self, problem: Problem, table: CostTable) -> None:
        self.problem = problem
        self.table = table
        self.chain = Chain.of(table)
        self.data = lru_cache(maxsize=None)(self._data)

    def value(self, decision: Decision) -> int | None:
        """Return the objective in 1 / PERIOD_SCALE ticks; None if it is no plan."""
        if not keeps_pins(decision, self.problem):
            return None
        return exact_value(decision, self.data(decision.microbatches))

    def _data(self, microbatches: int) -> ProgramData:
        table = self.table
        return ProgramData(
            part=table.at(microbatches),
            chain=self.chain,
            schedule=table.schedule,
            pins=self.problem.pins,
            names=table.cluster_names,
            devices=table.cluster_devices,
            usable_bytes=table.usable_bytes,
            # Pricing asks for neither.
            stages=0,
            cutoff=0,
        )


def keeps_pins(decision: Decision, problem: Problem) -> bool:
    """Whether a decision keeps to the pins that its strategies do not show."""
    pins = problem.pins
    names = [cluster.name for cluster in problem.clusters]
    stages, units = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    first = 0
    for j, hosted in zip(decision.order, decision.hosted, strict=True):
        stages[names[j]] += hosted
        units[names[j]] += sum(decision.units[first : first + hosted])
        first += hosted
    order = tuple(names[j] for j, _ in groupby(decision.order))
    return (
        pins.stages.permits(decision.stages)
        and pins.microbatches.permits(decision.microbatches)
        and (pins.order is None or order == pins.order)
        and not any(pair in pins.forbidden_next for pair in pairwise(order))
        and (pins.units is None or decision.units == pins.units)
        and all(pins.of(name).stages.permits(stages[name]) for name in names)
        and all(pins.of(name).units.permits(units[name]) for name in names)
    )
