"""The progress that a search reports while it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A snapshot of the race.

    Attributes
    ----------
    incumbent_s, bound_s, gap
        Best objective so far, valid lower bound on all plans, and their relative
        distance; None while unknown.
    settled, programs
        Number of settled programs (p, q), and of all programs.
    """

    elapsed_s: float
    incumbent_s: float | None
    bound_s: float | None
    gap: float | None
    settled: int
    programs: int
