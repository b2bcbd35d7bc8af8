"""Messages between the race and its workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetopt.cost.table.ticks import TICK_S
from hetopt.formulations.scale import LONGEST, PERIOD_SCALE
from hetopt.problem.training.principles import PRUNED

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles

#: The shared cutoff while there is no plan: no plan may take longer.
NO_CUTOFF = LONGEST


def cutoff_of(time_s: float | None) -> int:
    """Convert a cutoff from seconds to 1 / PERIOD_SCALE ticks; None to NO_CUTOFF."""
    if time_s is None:
        return NO_CUTOFF
    return int(min(time_s / TICK_S * PERIOD_SCALE, NO_CUTOFF))


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What every worker is given once.

    Attributes
    ----------
    engine
        ``module:attribute`` that makes the Engine from a seed.
    top
        How many best plans are wanted.
    workers
        How many workers share the memory.
    principles
        What a plan has to keep.
    whole_q
        Whether every q is bounded as a whole.
    """

    problem: Problem
    table: CostTable
    engine: str
    seed: int
    top: int
    workers: int = 1
    principles: Principles = PRUNED
    whole_q: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyTask:
    """Bound every p of one q; ``cutoff`` in 1 / PERIOD_SCALE ticks, or None."""

    microbatches: int
    cutoff: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaxedPlanTask:
    """Turn the relaxed optimum of one (p, q) at lambda <= ``period`` into plans."""

    microbatches: int
    stages: int
    period: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleTask:
    """Settle the program of one (p, q).

    Attributes
    ----------
    start
        The best known plan of this (p, q).
    """

    microbatches: int
    stages: int
    time_limit_s: float | None
    start: Decision | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TieTask:
    """Find the first plans of one (p, q) at these objectives by the tie rule.

    Attributes
    ----------
    values
        Known objectives of plans of this (p, q), ascending.
    time_limit_s
        Plans that were not named by then stay as they were found; None: no limit.
    """

    microbatches: int
    stages: int
    values: tuple[int, ...]
    time_limit_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A plan's decision and its objective in 1 / PERIOD_SCALE ticks."""

    decision: Decision
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a program was settled; ``bound`` in 1 / PERIOD_SCALE ticks.

    Attributes
    ----------
    closed
        Whether the ``top`` best plans within the final cutoff were all reported.
    searched
        Whether an engine was needed; if not, the relaxation was enough.
    """

    closed: bool
    searched: bool
    bound: int
