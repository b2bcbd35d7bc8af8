"""What may be spent, and what was found out about the nodes to rent."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """How nodes are chosen by their prices.

    Attributes
    ----------
    budget
        Most that the nodes of a plan may cost an hour, above 0; None: any amount.
    min_tokens_per_s
        Least throughput, by the time that is minimised, above 0; None: any.
    """

    budget: float | None = None
    min_tokens_per_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("budget", "min_tokens_per_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                msg = f"is {value!r}, expected a number above 0"
                raise InputError(msg, field=name)

    def longest_s(self, tokens: int) -> float:
        """Return the longest iteration time that the least throughput permits."""
        if self.min_tokens_per_s is None:
            return math.inf
        return tokens / self.min_tokens_per_s

    def to_json(self) -> dict[str, float | None]:
        """Return the limits as plain JSON data."""
        return {"budget": self.budget, "min_tokens_per_s": self.min_tokens_per_s}


def spending_of(
    objective: str | None,
    budget: float | None,
    min_tokens_per_s: float | None,
    *,
    field: str = "min_tokens_per_s",
) -> Spending | None:
    """Return how prices decide; None if nothing was asked of them.

    Raises
    ------
    InputError
        A limit is no number above 0, or the least throughput is without effect.
    """
    if min_tokens_per_s is not None and objective != "cost":
        msg = "is of no effect where time is minimised: use it with objective cost"
        raise InputError(msg, field=field)
    if objective != "cost" and budget is None:
        return None
    return Spending(budget=budget, min_tokens_per_s=min_tokens_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetBound:
    """What a search found out about one fleet.

    Attributes
    ----------
    nodes
        By cluster; those without any are left out.
    bound_s
        No plan on these nodes, or on some of them, takes less; None: there is none.
    """

    nodes: Mapping[str, int]
    bound_s: float | None

    def to_json(self) -> dict[str, Any]:
        """Return this as plain JSON data."""
        return {"nodes": dict(self.nodes), "bound_s": self.bound_s}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """How a result was found that minds prices.

    Attributes
    ----------
    fleets
        Those that were searched. What is claimed follows from their bounds, and from
        the device time of the others.
    choices
        Fleets in all.
    lower_bound
        Valid lower bound on the cost of an iteration, in closed form; None unless
        cost is minimised.
    """

    spending: Spending
    fleets: tuple[FleetBound, ...] = field(repr=False)
    choices: int
    lower_bound: float | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Spent:
        """Read what ``to_json`` wrote; raises KeyError, TypeError or ValueError."""
        return cls(
            spending=Spending(
                budget=data["budget"], min_tokens_per_s=data["min_tokens_per_s"]
            ),
            fleets=tuple(FleetBound(**each) for each in data["fleets"]),
            choices=data["choices"],
            lower_bound=data["lower_bound"],
        )

    def to_json(self) -> dict[str, Any]:
        """Return this as plain JSON data."""
        return {
            **self.spending.to_json(),
            "choices": self.choices,
            "lower_bound": self.lower_bound,
            "fleets": [each.to_json() for each in self.fleets],
        }


def cost_of_time(per_hour: float, time_s: float) -> float:
    """Return what so many seconds cost at a price per hour."""
    return per_hour * time_s / _HOUR_S
