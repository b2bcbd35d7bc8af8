"""The unit of time in programs, and how floating point is rounded to it."""

from __future__ import annotations

from hetopt.cost.table.ticks import LONGEST_NS

#: Objectives are counted in 1 / PERIOD_SCALE ticks and lambda is rounded up to a
#: whole one: a program's optimum exceeds the closed form of its plan by less than
#: (q - 1) / PERIOD_SCALE ticks, passes of v chunks counting as q v micro-batches.
PERIOD_SCALE = 1000

#: The longest objective of any plan, in 1 / PERIOD_SCALE ticks.
LONGEST = PERIOD_SCALE * LONGEST_NS

#: Sums of floating-point times have a smaller relative error than 2 to minus this.
_ROUNDING = 50


def scaled_below(time_ns: float) -> int:
    """Return an integer objective at most a bound computed in floating point."""
    scaled = int(time_ns * PERIOD_SCALE)
    return max(0, scaled - 1 - (scaled >> _ROUNDING))


def scaled_above(objective: int) -> int:
    """Return an integer at least an objective that was rounded to floating point."""
    return objective + 1 + (objective >> _ROUNDING)


def ticks_above(objective: int) -> float:
    """Return ticks above an objective, however floating-point sums are rounded."""
    return scaled_above(objective) / PERIOD_SCALE
