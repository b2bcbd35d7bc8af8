"""Findings on a certificate, and its claims that are still in doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetopt.plans.plan import Plan


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim that does not hold; ``field`` is its key, such as ``programs.3``."""

    field: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A claim that only a search can confirm or refute.

    Attributes
    ----------
    bound_ps
        None if the program is claimed to have no plan.
    always
        Whether every sample has to include it: if it is not claimed to be refuted by a
        search.
    ranges
        The ranges of lambda in ns in which a plan may have a smaller value, or of the
        largest excess; None if no search of ``check.verify`` covers the space.
    """

    field: str
    stages: int
    microbatches: int
    bound_ps: int | None
    always: bool
    ranges: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Outcome of a search below a bound.

    Attributes
    ----------
    plan
        A plan below the bound; None if none was found.
    open
        Whether neither a plan nor a proof was found.
    listed
        How many plans had to be run, as bounds leave them.
    """

    plan: Plan | None = None
    open: bool = False
    listed: int = 0
