"""Assumptions about how tokens reach the experts they are routed to."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hetopt.base.checked import checked


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """Dispatch and combination of the tokens of routed experts.

    Attributes
    ----------
    imbalance
        Tokens of the fullest rank over the even share; at least 1. An assumption: the
        experts of a token are not known before training.
    capacity
        Most tokens of an expert over the even share; tokens beyond it are dropped
        (Megatron-LM's capacity factor); above 0. None: none are dropped.
    node_dedup
        Whether a token whose experts share a node is sent to that node once and
        forwarded inside it (DeepSeek-V3, section 3.2.2), or once per expert.
    overlap
        Share of a dispatch or combination that runs beside the computation of another
        micro-batch (DeepSeek-V3, section 3.2.1), if that takes as long; 0 to 1. An
        assumption: it depends on kernels and their order.
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
        """Whether computation of another micro-batch hides some of the dispatch."""
        return self.overlap > 0

    @property
    def load(self) -> float:
        """Tokens of the fullest rank over the even share, after dropping."""
        if self.capacity is None:
            return self.imbalance
        return min(self.imbalance, self.capacity)


#: Every expert gets the same number of tokens.
EVEN = Dispatch()
