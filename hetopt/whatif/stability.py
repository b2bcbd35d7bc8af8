"""How far coefficients may change before another plan is better.

Coefficients are uncertain: times are modelled, links shared with others. For each of
them (``moves``) and in either direction, factors ever farther from 1 are tried until
some plan takes, or costs, 1% less than the given one; that step is then bisected.
Whether there is such a plan is decided by the search that found the plan, with all that
it branches over, for the changed problem and with a cutoff 1% below the plan's value
there, so that lower bounds mostly suffice. This is not monotone: another plan may be
better at one factor and not at the next one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetopt.cost.build import build_table
from hetopt.errors import InputError
from hetopt.planning.posed import ensure_holds
from hetopt.pricing.price import Price, price
from hetopt.pricing.several import SeveralPrice, price_several
from hetopt.results.crossing import MARGIN, Crossing
from hetopt.results.money import known_cost
from hetopt.results.spending import cost_of_time
from hetopt.solvers.pools.opening import worker_count
from hetopt.whatif.apart import run_apart
from hetopt.whatif.moves import Move, moves_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.cost.table.table import CostTable
    from hetopt.planning.posed import Posed
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.solvers.request import Request

#: Factors that are tried, upwards as they are and downwards as reciprocals.
FACTORS = (1.02, 1.05, 1.1, 1.2, 1.35, 1.6, 2.0, 2.8, 4.0)
#: Bisections of the step in which another plan becomes better.
_HALVINGS = 4


class Stability:
    """Changes the coefficients that a plan depends on, one at a time.

    Attributes
    ----------
    interrupted
        Whether the user interrupted it or the time was up: remaining directions were
        not searched.

    Parameters
    ----------
    posed
        What was searched; no front.
    request
        How each is searched; its deadline is that of all.
    plan
        The plan that was found.
    """

    def __init__(self, posed: Posed, request: Request, plan: Plan) -> None:
        self.interrupted = False
        # A journal is for one problem only, and the next best plans are not needed.
        params = replace(
            request.params, top=1, journal=None, executor="process", on_progress=None
        )
        self._request, self._plan = replace(request, params=params), plan
        self._posed, self._over = posed, posed.over

    def crossings(self, told: Callable[[str], None]) -> list[Crossing]:
        """Return how far each coefficient may change, downwards first.

        Parameters
        ----------
        told
            Called with a line whenever a direction is done.
        """
        tasks = [
            (move, more)
            for move in moves_of(self._request.problem)
            for more in (False, True)
        ]
        found: dict[int, Crossing | None] = {}

        def take(number: int, crossing: Crossing | None) -> bool:
            found[number] = crossing
            self.interrupted = self.interrupted or crossing is None
            told(f"{len(found)} of {len(tasks)} directions searched")
            return not self.interrupted

        params = self._request.params
        size = min(worker_count(params.jobs), len(tasks))
        own = replace(params, jobs=1, beside=size) if size > 1 else params
        request = replace(self._request, params=own)
        payload = (self._posed, request, self._plan)
        ended = run_apart(size, _make, payload, tasks, take)
        self.interrupted = self.interrupted or not ended
        return [each for _, each in sorted(found.items()) if each is not None]

    def crossing(self, move: Move, more: bool) -> Crossing | None:
        """Return how far one coefficient may change; None if interrupted."""
        if self._request.deadline.is_over():
            self.interrupted = True
            return None
        known = Crossing(
            kind=move.kind,
            clusters=move.clusters,
            direction="more" if more else "less",
            factor=None,
            plan_s=None,
            other=None,
            proven=True,
        )
        if not more and not move.is_used(self._plan):
            # Less of it can slow other plans, but not this one.
            return known
        near = 1.0
        proven = True
        for step in FACTORS:
            far = step if more else 1 / step
            found = self._at(move, far)
            if self.interrupted:
                return None
            if found.factor is None:
                near, proven = far, proven and found.proven
                continue
            for _ in range(_HALVINGS):
                middle = math.sqrt(near * far)
                nearer = self._at(move, middle)
                if self.interrupted:
                    return None
                if nearer.factor is None:
                    near, proven = middle, proven and nearer.proven
                else:
                    far, found = middle, nearer
            return replace(found, proven=proven)
        return replace(known, proven=proven)

    def _at(self, move: Move, factor: float) -> Crossing:
        """Return the better plan at one factor; ``factor`` is None if there is none."""
        problem = move.in_problem(self._request.problem, factor)
        table = build_table(problem)
        plan_s = self._time_s(problem, table)
        value = self._value(problem, plan_s)
        cutoff = None if value is None else value * (1 - MARGIN)
        tree = self._posed.tree(
            replace(self._request, problem=problem, table=table, cutoff_s=cutoff)
        )
        result = tree.run()
        ensure_holds(problem, table, result)
        self.interrupted = result.interrupted or self._request.deadline.is_over()
        found = Crossing(
            kind=move.kind,
            clusters=move.clusters,
            direction="more" if factor > 1 else "less",
            factor=factor,
            plan_s=plan_s,
            other=result.best,
            proven=True,
        )
        if cutoff is not None and tree.root.value >= cutoff:
            return replace(found, factor=None, other=None, proven=tree.is_refuted)
        if self._over.measure != "cost":
            return found
        return replace(
            found,
            plan_cost=None if value is None else cost_of_time(1.0, value),
            other_cost=cost_of_time(1.0, tree.root.value) if result.best else None,
        )

    def _time_s(self, problem: Problem, table: CostTable) -> float | None:
        """Return the plan's time in this problem; None if it does not fit any more."""
        plan = self._plan
        own = problem.of_plan(
            plan.schedule, plan.chunks, plan.warmup_epsilon, plan.cuts
        )
        try:
            if len(plan.pipelines) > 1 or own.training.lengths is not None:
                several = price_several(own, plan)
                priced: Price | SeveralPrice = several
                prices = several.prices
            else:
                priced = price(plan, table if own == problem else build_table(own))
                prices = (priced,)
        except InputError:
            # Strategies that do not fit a device are not in its table.
            return None
        for each in prices:
            both = zip(each.memory_bytes, each.usable_bytes, strict=True)
            if any(need > usable for need, usable in both):
                return None
        simulated = self._posed.objective == "simulated"
        return priced.iteration_time_s if simulated else priced.closed_form_s

    def _value(self, problem: Problem, plan_s: float | None) -> float | None:
        """Return what is minimised, of the plan; None if it is not permitted.

        A cost is in seconds times the price an hour.
        """
        spending = self._over.spending
        if plan_s is None or spending is None:
            return plan_s
        if plan_s > spending.longest_s(problem.training.tokens):
            return None
        if self._over.measure != "cost":
            return plan_s
        per_hour = known_cost(problem, self._plan, plan_s).per_hour
        assert per_hour is not None
        return per_hour * plan_s


def _make(
    payload: tuple[Posed, Request, Plan],
    shared: Any,
    say: Callable[[Any], None],
) -> Callable[[tuple[Move, bool]], Crossing | None]:
    """Return the worker's function for a coefficient and a direction."""
    stability = Stability(*payload)
    return lambda task: stability.crossing(*task)
