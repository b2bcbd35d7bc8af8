"""What a search branched over, and its tree of claims, as plain JSON data.

``over`` lists the branchings from the root down, each as one of

``{"fleets": {"measure": ..., "budget": ..., "min_tokens_per_s": ...}}``
    Which nodes to rent, at least time, at least cost, or as the front of both.
``{"schedules": [{"schedule": ..., "chunks": ..., "warmup_epsilon": ...}, ...]}``
    The schedules that were asked for, in the order in which ties are broken.
``{"divisions": {"most": ..., "alike": [...]}}``
    Up to so many pipelines side by side, which have one of these values in common, as
    the launcher needs it; without ``alike`` nothing.
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

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypeAlias

from annotated_types import Ge, MinLen
from typing_extensions import TypedDict

from hetopt.base.fields import Count, NotNegative, Positive, Seconds, Whole
from hetopt.base.file_record import CONFIG, As
from hetopt.problem.training.choices import ScheduleName
from hetopt.results.per_schedule import ScheduleBound
from hetopt.results.settlement import OPTIMALITY_GAP
from hetopt.results.several import Several
from hetopt.results.spending import Spending, Spent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.results.per_schedule import ScheduleStatus

#: Plain JSON data.
Json: TypeAlias = Mapping[str, Any]
#: Least time; least cost; all plans that no other beats in both time and price.
Measure = Literal["time", "cost", "front"]
#: A number of nodes, or what tells a schedule from others.
_Told = Annotated[int, Ge(0)] | NotNegative | str | None


class Limits(TypedDict):
    """All choices of nodes to rent, within these limits."""

    __pydantic_config__ = CONFIG  # type: ignore[misc]

    measure: Measure
    budget: Positive | None
    min_tokens_per_s: Positive | None


class Variant(TypedDict):
    """A schedule.

    Attributes
    ----------
    chunks
        Of every stage.
    warmup_epsilon
        Of ``h-1f1b``.
    """

    __pydantic_config__ = CONFIG  # type: ignore[misc]

    schedule: ScheduleName
    chunks: Count
    warmup_epsilon: Positive | None


class Divisions(TypedDict):
    """All ways to divide the nodes among up to so many pipelines.

    Attributes
    ----------
    alike
        What the launcher's pipelines may have in common: they share one of these.
    """

    __pydantic_config__ = CONFIG  # type: ignore[misc]

    most: Count
    alike: NotRequired[Annotated[list[str], MinLen(1)]]


class Branching(TypedDict, total=False):
    """What the search branched over; one key.

    Attributes
    ----------
    schedules
        In the order in which ties are broken.
    launcher
        Only plans that it can run.
    """

    __pydantic_config__ = CONFIG  # type: ignore[misc]

    fleets: Limits
    schedules: Annotated[list[Variant], MinLen(1)]
    divisions: Divisions
    launcher: str


class Node(TypedDict, total=False):
    """What makes a node of the tree of claims, and what its children differ in.

    Attributes
    ----------
    at
        What makes this child: nodes by cluster, a schedule with its chunks and epsilon,
        or for each pipeline the devices of each node, by cluster.
    best_s
        What the best plan found here takes.
    by
        What its children differ in; with a launcher only in certificates.
    of
        Number of all children; device time bounds those not listed.
    rule
        By which the plans a launcher can run are split.
    pipeline
        The number of a part's pipeline.
    batch
        The sequences of a part.
    alike
        What the pipelines of which a part is one have in common; without it the claim
        is about any.
    passed_over
        Why this child does not count.
    """

    __pydantic_config__ = CONFIG  # type: ignore[misc]

    at: (
        dict[str, _Told]
        | Annotated[list[dict[str, Annotated[list[Count], MinLen(1)]]], MinLen(1)]
    )
    best_s: Seconds
    by: Literal["fleets", "schedules", "divisions", "launcher"]
    of: Whole
    rule: str
    pipeline: Whole
    batch: Count
    alike: str
    passed_over: str


class Claim(Node, total=False):
    """What the search claims, and from which the bound follows.

    Attributes
    ----------
    bound_s
        No plan takes less; null: there is none.
    parts
        Pipelines side by side, of this or another batch; or all the spaces that a rule
        of the launcher splits this one into.
    """

    bound_s: Seconds | None
    children: list[Claim]
    parts: list[Claim]


Claims: TypeAlias = Annotated[Json, As(Claim)]
Over: TypeAlias = tuple[Annotated[Json, As(Branching)], ...]


class Branched:
    """What reports say of a search that branched, from ``over`` and ``claims``."""

    __slots__ = ()

    over: tuple[Json, ...]
    claims: Json | None

    @property
    def launcher(self) -> str | None:
        """The launcher that has to run the plans; None: any."""
        name: str | None = asked(self.over, "launcher")
        return name

    @property
    def spent(self) -> Spent | None:
        """What was found about the nodes to rent; None if prices do not decide."""
        limits = asked(self.over, "fleets")
        if limits is None:
            return None
        root = next(nodes_by(self.claims, "fleets"), None)
        return Spent(
            spending=Spending(
                budget=limits["budget"], min_tokens_per_s=limits["min_tokens_per_s"]
            ),
            searched=0 if root is None else len(root["children"]),
            choices=0 if root is None else root["of"],
        )

    @property
    def several(self) -> Several | None:
        """What was found about pipelines side by side; None without them."""
        limits = asked(self.over, "divisions")
        if limits is None:
            return None
        nodes = list(nodes_by(self.claims, "divisions"))
        return Several(
            most=limits["most"],
            divisions=max((each["of"] for each in nodes), default=0),
            searched=sum(len(set(_pipelines(each))) for each in nodes),
        )

    @property
    def schedules(self) -> tuple[ScheduleBound, ...]:
        """What was found about each schedule; none if one was asked for."""
        return schedules_of(self.over, self.claims, self.reached())

    def reached(self) -> Reached:
        """Return what the search came to; by default nothing is known."""
        return Reached(own=None, best_s=None, least_s=0.0, proven=False)


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


def bound_of(claim: Json, others: float = 0.0) -> float:
    """Return a lower bound on the time of all plans of a claim; inf: it has none.

    Parameters
    ----------
    others
        What is known of every plan of the whole search. It stands for children that are
        not listed, and for pipelines side by side, whose device time is not recorded.
    """
    if "bound_s" in claim:
        bound = claim["bound_s"]
        return math.inf if bound is None else float(bound)
    if "parts" in claim:
        return others
    counting = [each for each in claim["children"] if "passed_over" not in each]
    known = [bound_of(each, others) for each in counting]
    if len(counting) < claim["of"]:
        known.append(others)
    return min(known, default=others)


def without_better(claim: Json, time_s: float) -> Json:
    """Return a tree of claims that names no plan which takes less time.

    Pipelines side by side are no plans.
    """
    found = dict(claim)
    if "children" in claim:
        found["children"] = [without_better(e, time_s) for e in claim["children"]]
    if claim.get("best_s", math.inf) < time_s:
        del found["best_s"]
    return found


def _pipelines(node: Json) -> Iterator[str]:
    """Yield a key of each pipeline searched; divisions have some in common."""
    for child in node["children"]:
        for part in child.get("parts", ({},)):
            own = child["at"][part["pipeline"]] if part else child["at"]
            told = (part.get(key) for key in ("batch", "alike", "bound_s"))
            yield json.dumps([own, *told])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What a search over schedules came to.

    Attributes
    ----------
    own
        Schedule, chunks and epsilon of the reported plan; None without one.
    best_s
        Its time, by which schedules are compared; None without a plan, or if they are
        compared by cost.
    least_s
        Lower bound on the time of all plans of the search; inf: there is none.
    proven
        Whether no plan is better than the reported one.
    """

    own: tuple[Any, ...] | None
    best_s: float | None
    least_s: float
    proven: bool


def schedules_of(
    over: Sequence[Json], claims: Json | None, reached: Reached
) -> tuple[ScheduleBound, ...]:
    """Return what a search found about each schedule; none if it had no choice."""
    variants = asked(over, "schedules")
    if variants is None:
        return ()
    # A schedule that is listed for some fleets may have a better plan on others.
    low = reached.least_s if asked(over, "fleets") else math.inf
    known: dict[tuple[Any, ...], list[Json]] = {}
    for node in nodes_by(claims, "schedules"):
        for child in node["children"]:
            known.setdefault(_key(child["at"]), []).append(child)
    return tuple(
        _schedule(variant, known.get(_key(variant), []), reached, low)
        for variant in variants
    )


def _key(variant: Json) -> tuple[Any, ...]:
    return variant["schedule"], variant["chunks"], variant["warmup_epsilon"]


def _schedule(
    variant: Json, found: Sequence[Json], reached: Reached, low: float
) -> ScheduleBound:
    """Return what is known of a schedule, over all fleets if there are several."""
    passed = next(
        (each["passed_over"] for each in found if "passed_over" in each), None
    )
    if passed is not None:
        return ScheduleBound(**variant, status="passed-over", reason=passed)
    if found:
        bound = min(low, *(bound_of(each, reached.least_s) for each in found))
    else:
        bound = reached.least_s
    value = min((each.get("best_s", math.inf) for each in found), default=math.inf)
    compared = reached.best_s is not None and not math.isinf(value)
    status = _status(_key(variant) == reached.own, bound, value, reached)
    left = not found and status == "unknown"
    return ScheduleBound(
        **variant,
        status=status,
        objective_s=value if compared else None,
        lower_bound_s=bound if 0 < bound < math.inf else None,
        reason="not searched" if left else None,
    )


def _status(own: bool, bound: float, value: float, reached: Reached) -> ScheduleStatus:
    """Return what is known of a schedule, by its bound and its best plan's time."""
    if math.isinf(bound):
        return "infeasible"
    if own and reached.proven:
        return "optimal"
    if reached.best_s is not None:
        if bound >= value * (1 - OPTIMALITY_GAP):
            return "optimal"
        if not own and bound >= reached.best_s * (1 - OPTIMALITY_GAP):
            return "refuted"
    elif reached.proven and not own:
        return "refuted"
    return "unknown" if math.isinf(value) else "feasible"
