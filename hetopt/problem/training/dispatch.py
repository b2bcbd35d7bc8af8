"""What is assumed of how tokens reach the experts they are routed to."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """Dispatch and combination of the tokens of routed experts.

    Attributes
    ----------
    imbalance
        Tokens of the fullest rank over the even share; at least 1. Which experts a
        token takes is not known before training, so this is an assumption.
    capacity
        Most tokens that an expert takes, over the even share: what is beyond is
        dropped (Megatron-LM's capacity factor); above 0. None: nothing is.
    node_dedup
        Whether a token whose experts share a node is sent to that node once, and
        handed on inside it (DeepSeek-V3, section 3.2.2), or once per expert.
    overlap
        Share of a dispatch or combination that runs beside the computation of another
        micro-batch (DeepSeek-V3, section 3.2.1), if that takes as long; 0 to 1. How
        much it is depends on kernels and their order, so this is an assumption.
    """

    imbalance: float = 1.0
    capacity: float | None = None
    node_dedup: bool = False
    overlap: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.imbalance < math.inf:
            msg = f"imbalance is {self.imbalance:g}, expected at least 1"
            raise ValueError(msg)
        if self.capacity is not None and not 0 < self.capacity < math.inf:
            msg = f"capacity is {self.capacity:g}, expected more than 0"
            raise ValueError(msg)
        if not 0 <= self.overlap <= 1:
            msg = f"overlap is {self.overlap:g}, expected 0 to 1"
            raise ValueError(msg)

    @property
    def overlaps(self) -> bool:
        """Whether another micro-batch's computation hides anything."""
        return self.overlap > 0

    @property
    def load(self) -> float:
        """Tokens that the fullest rank takes, over the even share."""
        if self.capacity is None:
            return self.imbalance
        return min(self.imbalance, self.capacity)


#: Every expert takes as many tokens as any other.
EVEN = Dispatch()
