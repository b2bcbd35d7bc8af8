"""How far one coefficient may move until another plan is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import MinLen

from hetopt.base.fields import NotNegative, Positive, Seconds
from hetopt.base.file_record import FileRecord
from hetopt.results.priced_plan import PricedPlan

#: Share of the plan's time by which another plan has to be better, as coefficients are
#: uncertain.
MARGIN = 0.01

MoveKind = Literal["speed", "memory", "link", "uplink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing(FileRecord):
    """How far one coefficient may move in one direction (``hetopt.whatif.stability``).

    Attributes
    ----------
    kind, clusters
        ``speed``: of a cluster's devices; ``memory``: per device; ``link``: all
        bandwidths between two clusters; ``uplink``.
    direction
        Whether the coefficient grows: ``more``.
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
    clusters: Annotated[tuple[str, ...], MinLen(1)]
    direction: Literal["more", "less"]
    factor: Positive | None
    plan_s: Seconds | None
    other: PricedPlan | None
    proven: bool
    plan_cost: NotNegative | None = None
    other_cost: NotNegative | None = None

    @property
    def more(self) -> bool:
        """Whether the coefficient grows."""
        return self.direction == "more"
