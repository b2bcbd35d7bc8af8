"""How far one coefficient may move until another plan is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hetopt.results.priced_plan import PricedPlan

if TYPE_CHECKING:
    from collections.abc import Mapping


#: Share of the plan's time by which another plan has to be better, as coefficients are
#: uncertain.
MARGIN = 0.01

MoveKind = Literal["speed", "memory", "link", "uplink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """How far one coefficient may move in one direction (``hetopt.whatif.stability``).

    Attributes
    ----------
    kind, clusters
        ``speed``: of a cluster's devices; ``memory``: per device; ``link``: all
        bandwidths between two clusters; ``uplink``.
    more
        Whether the coefficient grows.
    factor
        First factor found at which another plan is better by more than ``MARGIN``, or
        this one is not permitted; None: there is none up to the last one tried.
    plan_s
        The plan's time at this factor, by the objective; None: it does not fit its
        devices, or there is no factor.
    other
        The best plan at this factor, perhaps under another schedule or of other
        pipelines; None if there is no plan, or no factor.
    proven
        Whether no plan is better at the factors that were tried before.
    plan_cost, other_cost
        Costs of an iteration of both plans at this factor, if that is minimised.
        ``plan_cost`` is None if the plan does not fit or is too slow there.
    """

    kind: MoveKind
    clusters: tuple[str, ...]
    more: bool
    factor: float | None
    plan_s: float | None
    other: PricedPlan | None
    proven: bool
    plan_cost: float | None = None
    other_cost: float | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Crossing:
        """Read what ``to_json`` wrote; raises KeyError, TypeError or ValueError."""
        other = data["other"]
        return cls(
            clusters=tuple(data["clusters"]),
            more=data["direction"] == "more",
            other=None if other is None else PricedPlan.from_json(other),
            **{name: data[name] for name in ("kind", "factor", "plan_s", "proven")},
            plan_cost=data.get("plan_cost"),
            other_cost=data.get("other_cost"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return this as plain JSON data."""
        costs = {"plan_cost": self.plan_cost, "other_cost": self.other_cost}
        return {
            "kind": self.kind,
            "clusters": list(self.clusters),
            "direction": "more" if self.more else "less",
            "factor": self.factor,
            "plan_s": self.plan_s,
            "other": None if self.other is None else self.other.to_json(),
            "proven": self.proven,
            **{name: cost for name, cost in costs.items() if cost is not None},
        }
