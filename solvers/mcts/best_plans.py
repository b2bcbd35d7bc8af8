"""The best plans that one tree found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.solvers.race.messages import NO_CUTOFF, Found

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from hetopt.formulations.decision import Decision


class BestPlans:
    """Reports every plan that is the best of its shape so far.

    Parameters
    ----------
    top
        How many shapes are wanted.
    cutoff
        Largest objective of interest, in 1 / PERIOD_SCALE ticks.
    """

    def __init__(
        self, top: int, say: Callable[[Found], None], cutoff: int = NO_CUTOFF
    ) -> None:
        self._top, self._say = top, say
        self._known: dict[Hashable, int] = {}
        self.cutoff = cutoff

    def take(self, value: int, decision: Decision) -> int:
        """Record a plan within the cutoff; return the new cutoff."""
        known = self._known
        if value < known.get(decision.shape, NO_CUTOFF):
            known[decision.shape] = value
            self._say(Found(decision=decision, value=value))
        if len(known) >= self._top:
            last = sorted(known.values())[self._top - 1]
            self.cutoff = min(self.cutoff, last - 1)
        return self.cutoff
