"""UniAP's early stopping (appendix E)."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStopping:
    """When to stop a program before it is solved; None switches a rule off.

    UniAP, appendix E, stops with ``PUBLISHED_STOPPING``. A program stopped early counts
    as unsettled, with its bound.

    Attributes
    ----------
    time_limit_s
        Seconds for one program.
    gap, gap_after_s
        Stop once the relative gap is below ``gap``, after so many seconds.
    worse_after_s
        Stop once the bound is worse than the best of the programs before, after so
        many seconds.
    """

    time_limit_s: float | None = None
    gap: float | None = None
    gap_after_s: float = 0.0
    worse_after_s: float | None = None

    def leaves(
        self, elapsed_s: float, bound_ns: float, found_ns: float, best_ns: float
    ) -> bool:
        """Whether to stop a program with this bound and this best solution."""
        if (
            self.gap is not None
            and elapsed_s > self.gap_after_s
            and found_ns - bound_ns < self.gap * found_ns < math.inf
        ):
            return True
        return (
            self.worse_after_s is not None
            and elapsed_s > self.worse_after_s
            and bound_ns > best_ns
        )


NO_STOPPING = EarlyStopping()
#: UniAP, appendix E.
PUBLISHED_STOPPING = EarlyStopping(
    time_limit_s=60.0, gap=0.04, gap_after_s=15.0, worse_after_s=5.0
)
