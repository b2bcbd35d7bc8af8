"""Derive from a tree of claims a lower bound on all plans that were asked for.

Claims without children are taken as they are: ``hetopt verify`` derives some of them
again. Every other claim has to follow, and what is not claimed counts with device time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.check.claims.asked import TOLERANCE
from hetopt.check.claims.claim import At, Claim, as_claimed
from hetopt.check.claims.divisions import Divisions
from hetopt.check.claims.fleets import Fleets
from hetopt.check.claims.schedules import Schedules
from hetopt.check.plan.reading import choice, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.check.claims.asked import Asked
    from hetopt.check.claims.claim import LeafBound
    from hetopt.plans.plan import Plan

#: What a plan's own claims are about, by what was branched over first.
_OWN = {
    "fleets": "nodes are",
    "schedules": "schedule is",
    "divisions": "division is",
}
_RULES = {"fleets": Fleets, "schedules": Schedules, "divisions": Divisions}


def root_of(
    asked: Asked, data: Mapping[str, Any], leaf: LeafBound = as_claimed
) -> Claim:
    """Return what follows from the claims of a result or a front.

    What is wrong with them is added to ``asked.wrong``.

    Parameters
    ----------
    data
        The result or the front.
    leaf
        What a claim without children says.

    Raises
    ------
    InputError
        The claims are not in the form of ``hetopt.results.claims``.
    """
    problem = asked.problem
    at = At(
        asked=asked,
        place="claims",
        device_s=asked.device_time.of_all(),
        below=asked.below,
        chunks=problem.training.chunks,
        nodes=tuple(each.nodes for each in problem.clusters),
        leaf=leaf,
    )
    if asked.below:
        mapping(data.get("claims"), "claims")
    return derived(at, data.get("claims"))


def derived(at: At, data: object) -> Claim:
    """Return what follows from a claim; from None: from device time alone."""
    if data is None:
        return Claim(at.device_s)
    entry = mapping(data, at.place)
    claim: Claim
    if at.below:
        name = choice(entry, "by", at.below[:1], at.place)
        at.ensure_keys(entry, "by", "of", "children")
        claim = _RULES[name](at, entry, derived)
    else:
        claim = Claim(max(at.device_s, at.leaf(at, entry)))
    at.ensure_best(entry, claim.least_s)
    return claim


def plan_findings(
    asked: Asked, root: Claim | None, plan: Plan, time_s: float
) -> Iterator[str]:
    """Yield in what a plan is not asked for, or contradicts the claims about it.

    Parameters
    ----------
    root
        What follows from the claims; None if there are none.
    time_s
        The time of the plan that is minimised, or that the cost is of.
    """
    yield from asked.plan_findings(plan, time_s)
    least_s = 0.0 if root is None else root.of(plan)
    if least_s > time_s * (1 + TOLERANCE) + asked.slack_s(plan.chunks):
        own = _OWN[asked.below[0]] if asked.below else "launcher is"
        yield (
            f"claims: the plan takes {time_s!r} s, its own {own} said to take at least "
            f"{least_s!r} s"
        )
