"""What a search branched over, and its tree of claims, as plain JSON data.

``over`` lists the branchings from the root down, each as one of

``{"fleets": {"measure": ..., "budget": ..., "min_tokens_per_s": ...}}``
    Which nodes to rent, at least time, at least cost, or as the front of both.
``{"schedules": [{"schedule": ..., "chunks": ..., "warmup_epsilon": ...}, ...]}``
    The schedules that were asked for, in the order in which ties are broken.
``{"divisions": {"most": ...}}``
    Up to so many pipelines side by side.
``{"launcher": ...}``
    The plans that a launcher can run.

A node that branches is ``{"by": ..., "of": N, "children": [...]}``. Of its N children
only those are listed about which more is claimed than device time says, each with
``at``, which tells what makes it: nodes by cluster, a schedule, or the devices of each
node by pipeline and cluster. A child claims

- ``bound_s``: no plan of it takes less time; None: it has no plan;
- or what its own children claim (``by``), or its pipelines (``parts``), each given by
  its number and its sequences, whose bound holds wherever the same pipeline occurs;
- or that it was ``passed_over``, and why: then it does not count.

``best_s`` is the time of the best plan that was found there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hetopt.results.per_schedule import ScheduleBound
from hetopt.results.settlement import OPTIMALITY_GAP
from hetopt.results.several import Several
from hetopt.results.spending import FleetBound, Spending, Spent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hetopt.results.per_schedule import ScheduleStatus

    #: Plain JSON data.
    Json = Mapping[str, Any]


def asked(over: Sequence[Json], name: str) -> Any:
    """Return what was asked of a branching; None: the search did not branch so."""
    return next((each[name] for each in over if name in each), None)


def nodes_by(claims: Json | None, by: str) -> Iterator[Json]:
    """Yield the nodes of a tree that branch in one way, from the root down."""
    if claims is None:
        return
    if claims.get("by") == by:
        yield claims
    for child in claims.get("children", ()):
        yield from nodes_by(child, by)


def bound_of(claim: Json) -> float:
    """Return the least bound that a claim and those below it give; inf: no plan.

    It counts listed children only, so it is for reports: a bound that holds also counts
    the others.
    """
    if "bound_s" in claim:
        bound = claim["bound_s"]
        return math.inf if bound is None else float(bound)
    if "parts" in claim:
        return max(map(bound_of, claim["parts"]))
    counting = [each for each in claim["children"] if "passed_over" not in each]
    return min(map(bound_of, counting), default=0.0)


def spent_of(
    over: Sequence[Json], claims: Json | None, lower_cost: float | None
) -> Spent | None:
    """Return what a search found about the nodes to rent; None if it had no choice."""
    limits = asked(over, "fleets")
    if limits is None:
        return None
    root = next(nodes_by(claims, "fleets"), None)
    return Spent(
        spending=Spending(
            budget=limits["budget"], min_tokens_per_s=limits["min_tokens_per_s"]
        ),
        fleets=tuple(
            FleetBound(nodes=each["at"], bound_s=_finite(bound_of(each)))
            for each in (() if root is None else root["children"])
        ),
        choices=0 if root is None else root["of"],
        lower_bound=lower_cost,
    )


def several_of(over: Sequence[Json], claims: Json | None) -> Several | None:
    """Return what a search found about pipelines side by side; None without them."""
    limits = asked(over, "divisions")
    if limits is None:
        return None
    nodes = list(nodes_by(claims, "divisions"))
    return Several(
        most=limits["most"],
        divisions=max((each["of"] for each in nodes), default=0),
        searched=sum(
            len(child.get("parts", (child,)))
            for each in nodes
            for child in each["children"]
        ),
    )


def schedules_of(
    over: Sequence[Json], claims: Json | None, best_s: float | None
) -> tuple[ScheduleBound, ...]:
    """Return what a search found about each schedule; none if it had no choice.

    Parameters
    ----------
    best_s
        Time of the reported plan; None without one.
    """
    variants = asked(over, "schedules")
    if variants is None:
        return ()
    known: dict[tuple[Any, ...], list[Json]] = {}
    for node in nodes_by(claims, "schedules"):
        for child in node["children"]:
            known.setdefault(_key(child["at"]), []).append(child)
    return tuple(
        _schedule(variant, known.get(_key(variant), []), best_s) for variant in variants
    )


def _key(variant: Json) -> tuple[Any, ...]:
    return variant["schedule"], variant["chunks"], variant["warmup_epsilon"]


def _schedule(
    variant: Json, found: Sequence[Json], best_s: float | None
) -> ScheduleBound:
    """Return what is known of a schedule, over all fleets if there are several."""
    passed = next(
        (each["passed_over"] for each in found if "passed_over" in each), None
    )
    if passed is not None:
        return ScheduleBound(**variant, status="passed-over", reason=passed)
    if not found:
        reason = "not searched: it was stopped before"
        return ScheduleBound(**variant, status="unknown", reason=reason)
    bound = min(map(bound_of, found))
    value = min(each.get("best_s", math.inf) for each in found)
    if math.isinf(bound):
        return ScheduleBound(**variant, status="infeasible")
    status: ScheduleStatus = "unknown" if math.isinf(value) else "feasible"
    if bound >= value * (1 - OPTIMALITY_GAP):
        status = "optimal"
    elif best_s is not None and value > best_s and _excludes(bound, best_s):
        status = "refuted"
    return ScheduleBound(
        **variant,
        status=status,
        objective_s=_finite(value),
        lower_bound_s=bound,
    )


def _excludes(bound: float, best_s: float) -> bool:
    return bound >= best_s * (1 - OPTIMALITY_GAP)


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value
