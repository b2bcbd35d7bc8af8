"""Ranges of lambda that label setting searches, and what it finds in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetopt.formulations.decision import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A range of lambda in ticks, and under h-1f1b one of lambda_0 in ns."""

    low: int
    high: int
    floor: int
    ceiling: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """The best plan of a label setting.

    Attributes
    ----------
    total
        ``budget.total_of`` of its label; under gpipe with its own pace.
    whole_round
        R of MODEL.md section 4 in 1 / PERIOD_SCALE ticks, with several chunks.
    value
        The decision's exact objective, or None if it is not feasible.
    """

    decision: Decision
    total: int
    whole_round: int
    value: int | None
