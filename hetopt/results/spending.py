"""Limits on prices, and what a search found about the nodes to rent."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hetopt.errors import InputError

_HOUR_S = 3600.0
#: Relative error of a quotient of floating-point numbers, and more.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Limits by which nodes are chosen.

    Attributes
    ----------
    budget
        Highest price of a plan's nodes per hour, above 0; None: no limit.
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
        """Return the longest iteration time that the least throughput permits.

        An answer's own throughput permits its time, in spite of rounding.
        """
        if self.min_tokens_per_s is None:
            return math.inf
        return tokens / self.min_tokens_per_s * (1 + _ROUNDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """A search for the nodes to rent.

    Attributes
    ----------
    searched
        Number of fleets about which more is claimed than device time says.
    choices
        Number of all fleets.
    """

    spending: Spending
    searched: int
    choices: int


def cost_of_time(per_hour: float, time_s: float) -> float:
    """Return the cost of a time in seconds at a price per hour."""
    return per_hour * time_s / _HOUR_S
