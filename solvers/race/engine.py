"""What the race asks of an engine: settle one program."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetopt.base.deadline import Deadline
    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData

Verdict = Literal["optimal", "infeasible", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an engine found out about one program.

    Attributes
    ----------
    verdict
        ``optimal``: ``decision`` is a best one; ``infeasible``: no plan within the
        cutoff; ``stopped``: out of time, or told to stop.
    bound
        Valid lower bound on the objective, in 1 / PERIOD_SCALE ticks.
    """

    verdict: Verdict
    bound: int
    decision: Decision | None


class Engine(Protocol):
    """Solves programs; made once per worker, from a seed.

    Attributes
    ----------
    most_bytes
        Memory that it may take, as the worker says before the first program; it may
        leave a program open that needs more.
    most_subsets
        Of programs with more sets of clusters than this it is asked nothing.
    """

    most_bytes: int = sys.maxsize
    most_subsets: int = sys.maxsize

    def settle(
        self,
        data: ProgramData,
        *,
        excluded: Sequence[Decision],
        found: Callable[[Decision], None],
        stop: Callable[[], bool],
        deadline: Deadline,
        start: Decision | None = None,
    ) -> Answer:
        """Find the least objective within the cutoff, or show that there is none.

        Parameters
        ----------
        excluded
            Decisions whose shapes are ruled out, and those of their copies among
            identical clusters.
        found
            Called with every better decision on the way.
        stop
            Asked now and then; the engine gives up soon after it says True.
        deadline
            It gives up soon after this as well.
        start
            A plan of this very (p, q) to start from. It may lie outside the program,
            and changes nothing but how long the search takes.
        """
        ...

    def settle_tie(
        self, data: ProgramData, value: int, *, excluded: Sequence[Decision]
    ) -> Decision | None:
        """Return the first decision of objective ``value`` by the tie rule, if any.

        None as well where the engine does not know the rule; then the plans that
        were found stay, and which of equally good ones they are may be chance.
        """
        ...
