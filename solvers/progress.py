"""The progress that a search reports while it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


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


def without_times(
    told: Callable[[Progress], None] | None,
) -> Callable[[Progress], None] | None:
    """Return what reports the progress of a search that minimises another time."""
    if told is None:
        return None
    return lambda own: told(replace(own, incumbent_s=None, bound_s=None, gap=None))
