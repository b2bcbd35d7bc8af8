"""How the program of one (p, q) was settled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hetopt.base.fields import Count, Seconds
from hetopt.base.file_record import FileRecord

#: A result is optimal if its relative gap is at most this.
OPTIMALITY_GAP = 1e-6

How = Literal[
    "solved", "refuted-by-bound", "refuted-by-search", "infeasible", "unsettled"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement(FileRecord):
    """How the program of one (p, q) was settled.

    Attributes
    ----------
    how
        ``solved``: its optimum is known; ``refuted-by-bound``: a relaxation shows
        that it cannot beat the reported plan; ``refuted-by-search``: the program
        has no better plan; ``infeasible``: it has no plan at all; ``unsettled``: none
        of these, only ``bound_s`` is known.
    bound_s
        Valid lower bound on the objective of every plan with this (p, q), in
        seconds; None if it is infeasible.
    """

    stages: Count
    microbatches: Count
    how: How
    bound_s: Seconds | None
