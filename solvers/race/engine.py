"""The protocol of engines, which settle one program of the race at a time."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from hetopt.base.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData

Verdict = Literal["optimal", "infeasible", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an engine found about one program.

    Attributes
    ----------
    verdict
        ``optimal``: ``decision`` is an optimum; ``infeasible``: no plan is within the
        cutoff; ``stopped``: out of time or memory, or told to stop.
    bound
        Valid lower bound on the objective, in 1 / PERIOD_SCALE ticks.
    """

    verdict: Verdict
    bound: int
    decision: Decision | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRun:
    """What one run of an engine may not find, whom it tells, and when it stops.

    Attributes
    ----------
    excluded
        Decisions whose shapes are ruled out, and those of their copies among identical
        clusters.
    found
        Called with every better decision during the search.
    stop
        Called now and then; the engine stops soon after it returns True.
    deadline
        The engine also stops soon after the deadline.
    start
        A plan of this (p, q) to start from. It may lie outside the program, and only
        affects how long the search takes.
    """

    excluded: Sequence[Decision] = ()
    found: Callable[[Decision], None] = lambda decision: None
    stop: Callable[[], bool] = lambda: False
    deadline: Deadline = field(default_factory=Deadline)
    start: Decision | None = None


class Engine(Protocol):
    """Solves programs; made once per worker, from a seed.

    Attributes
    ----------
    most_bytes
        Memory that it may take, set by the worker before the first program; a program
        that needs more may stay open.
    most_subsets
        Programs with more sets of clusters than this are not given to it.
    """

    most_bytes: int = sys.maxsize
    most_subsets: int = sys.maxsize

    def settle(self, data: ProgramData, how: EngineRun) -> Answer:
        """Find the least objective within the cutoff, or show that there is none."""
        ...

    def settle_tie(
        self, data: ProgramData, value: int, how: EngineRun
    ) -> Decision | None:
        """Return the first decision of objective ``value`` by the tie rule, if any.

        Also None if the engine does not support the rule. Then the plans found so far
        stay, and which of several equally good ones they are may be chance.
        """
        ...
