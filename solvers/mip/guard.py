"""Settling one program with a solver that computes in floating point.

Such a solver may find an objective slightly too small, or accept a stage that is a few
bytes too large. So every solution is priced exactly; one that is not as good as the
solver claims is excluded, and the search goes on without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetopt.solvers.decisions.exact import exact_value
from hetopt.solvers.race.engine import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData
    from hetopt.solvers.race.engine import EngineRun, Verdict

#: A solver's objective and the exact one of its solution may differ by this share.
_AGREEMENT = 1e-7


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The result of one run of a solver; objectives in 1 / PERIOD_SCALE ticks.

    Attributes
    ----------
    bound
        Lower bound; None if the solver has none.
    claimed
        The solver's objective of ``decision``, or slightly less.
    """

    verdict: Verdict
    bound: int | None
    claimed: int | None
    decision: Decision | None


def settle_exactly(
    data: ProgramData,
    run: Callable[[Callable[[Decision], None]], Attempt],
    how: EngineRun,
    *,
    exclude: Callable[[Decision], None],
) -> Answer:
    """Run a solver until its answer is exact; see ``Engine.settle``.

    Parameters
    ----------
    run
        Runs the solver on the program without what was excluded so far; what it is
        given is called with every better decision.
    exclude
        Removes exactly one decision from the program.
    """
    best = _Best(data, how.found)
    bound = data.objective_min
    while not how.stop() and not how.deadline.is_over():
        attempt = run(best.report)
        if attempt.verdict == "infeasible":
            return best.answer()
        if attempt.bound is not None:
            bound = max(bound, attempt.bound)
        if attempt.decision is not None:
            best.take(attempt.decision)
        if attempt.claimed is None or attempt.decision is None:
            break
        if attempt.verdict == "stopped":
            break
        if best.proves(attempt.claimed):
            return best.answer()
        exclude(attempt.decision)
    return Answer(
        verdict="stopped",
        bound=bound if best.value is None else min(bound, best.value),
        decision=best.decision,
    )


class _Best:
    """The best decision so far, by its exact value."""

    def __init__(self, data: ProgramData, found: Callable[[Decision], None]) -> None:
        self._data = data
        self._found = found
        self.decision: Decision | None = None
        self.value: int | None = None

    def report(self, decision: Decision) -> None:
        if self.take(decision):
            self._found(decision)

    def take(self, decision: Decision) -> bool:
        """Keep a decision within the cutoff if it is better; return whether it is."""
        value = exact_value(decision, self._data)
        if value is None or value > self._data.cutoff:
            return False
        if self.value is not None and self.value <= value:
            return False
        self.decision, self.value = decision, value
        return True

    def proves(self, claimed: int) -> bool:
        """Whether the best decision is as good as the optimum that a solver claims."""
        limit = claimed * (1 + _AGREEMENT) + self._data.part.passes + 2
        return self.value is not None and self.value <= limit

    def answer(self) -> Answer:
        """Return the answer if no better decision exists."""
        if self.decision is None or self.value is None:
            cutoff = self._data.cutoff
            return Answer(verdict="infeasible", bound=cutoff + 1, decision=None)
        return Answer(verdict="optimal", bound=self.value, decision=self.decision)
