"""Claims about every schedule that was asked for."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from hetopt.check.claims.asked import Variant
from hetopt.check.claims.claim import Claim
from hetopt.check.plan.reading import items, mapping, text, whole
from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.cost.chunks import placed_units
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.check.claims.claim import At, Derive
    from hetopt.plans.plan import Plan
    from hetopt.problem.training.choices import ScheduleName


class Schedules(Claim):
    """What follows about each schedule; one that is not listed has device time."""

    def __init__(self, at: At, entry: Mapping[str, Any], derive: Derive) -> None:
        asked = at.asked
        # If the problem's own schedule has no strategy, another one may.
        at = replace(at, device_s=at.device_s if at.device_s < math.inf else 0.0)
        self._claims: dict[Variant, Claim] = {}
        passed: set[Variant] = set()
        for place, item in items(entry, "children", at.place):
            claim = mapping(item, place)
            told = f"{place}.at"
            variant = Variant.read(mapping(claim.get("at"), told), told)
            if variant not in asked.variants:
                asked.say(f"{place}: {variant} is not one of over.schedules")
                continue
            if variant in self._claims or variant in passed:
                asked.say(f"{place}: {variant} is listed twice")
                continue
            own = replace(
                at,
                place=place,
                below=at.below[1:],
                chunks=variant.chunks,
                variant=variant,
            )
            if "passed_over" not in claim:
                self._claims[variant] = derive(own, claim)
                continue
            passed.add(variant)
            own.ensure_keys(claim, "passed_over")
            self._ensure_reason(own, variant, text(claim, "passed_over", place))
        for variant in asked.variants:
            if variant not in passed:
                self._claims.setdefault(variant, derive(at, None))
        if (said := whole(entry, "of", at.place)) != len(self._claims):
            asked.say(f"{at.place}.of: {said}, expected {len(self._claims)}")
        super().__init__(self.beside(None))

    @staticmethod
    def _ensure_reason(at: At, variant: Variant, reason: str) -> None:
        """Ensure that there is a reason for which a schedule does not count."""
        if not reason:
            at.asked.say(f"{at.place}: is passed over, but no reason is given")
        if at.asked.passes_over(variant):
            return
        # Closed forms of orders that repeat a building block are not compared.
        if STEPS[variant.schedule].room is not None and not at.asked.simulated:
            return
        problem, name = at.asked.problem, cast("ScheduleName", variant.schedule)
        if problem.training.lengths is not None and not STEPS[name].mixes:
            return
        try:
            own = problem.under(name, variant.chunks, variant.warmup_epsilon)
            placed_units(problem.model, name, variant.chunks, own.pins.cuts)
        except InputError:
            return
        at.asked.say(f"{at.place}: {variant} is passed over, but is possible")

    def of(self, plan: Plan) -> float:
        """See ``Claim``; one that was passed over has no plan."""
        own = self._claims.get(Variant.of(plan))
        return math.inf if own is None else own.of(plan)

    def beside(self, plan: Plan | None) -> float:
        """Return a lower bound on the plans of all schedules but that of a plan."""
        own = None if plan is None else Variant.of(plan)
        others = (claim for variant, claim in self._claims.items() if variant != own)
        return min((claim.least_s for claim in others), default=math.inf)
