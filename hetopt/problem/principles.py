"""The principles that prune the space of plans (HetAuto Table 5), and their relaxing.

P2, that a stage lives in one cluster, always holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: P4: all stages of a cluster share one strategy; or each has its own, with the
#: tensor degree never rising along the pipeline (H2 section 4.3.3); or any.
Sharing = Literal["one", "falling-tp", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Principles:
    """Which principles a plan has to keep.

    Attributes
    ----------
    consecutive
        P3: the stages of a cluster stand next to each other in the pipeline.
    sharing
        P4, and what is left of it.
    """

    consecutive: bool = True
    sharing: Sharing = "one"


#: The space that is searched unless the user asks for a wider one.
PRUNED = Principles()
