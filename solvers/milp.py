"""The ``milp`` solver: interval programs in HiGHS, one per (p, q), in the race."""

from __future__ import annotations

from math import floor, isfinite
from typing import TYPE_CHECKING

from hetopt.solvers.engine import Answer
from hetopt.solvers.race import race
from hetopt.solvers.registry import ensure_can

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetopt.cost.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData
    from hetopt.problem.problem import Problem
    from hetopt.result import Result
    from hetopt.solvers.params import RaceParams

#: Share of a bound that floating point may have added to it.
_BOUND_MARGIN = 1e-9


def solve(
    problem: Problem,
    table: CostTable,
    params: RaceParams,
    *,
    time_limit_s: float | None,
    seed: int,
    cutoff: float | None = None,
) -> Result:
    """Find a plan of least closed form and prove that there is no better one.

    Parameters
    ----------
    time_limit_s
        Wall-clock limit; the best plan so far is returned with its true gap.
    cutoff
        Seconds; plans above it are of no interest.

    Raises
    ------
    InputError
        Under ``h-1f1b``, which the interval program does not know.
    """
    from hetopt.formulations.intervals_sets import ensure_known

    ensure_can("milp", params.principles)
    ensure_known(table.schedule)
    return race(
        problem,
        table,
        solver="milp",
        engine="hetopt.solvers.milp:MilpEngine",
        jobs=params.jobs,
        top=params.top,
        time_limit_s=time_limit_s,
        seed=seed,
        cutoff=cutoff,
        on_progress=params.on_progress,
    )


class MilpEngine:
    """Settles programs with HiGHS on one core."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def settle(
        self,
        data: ProgramData,
        *,
        excluded: Sequence[Decision],
        found: Callable[[Decision], None],
        stop: Callable[[], bool],
        time_limit_s: float | None,
        start: Decision | None = None,
    ) -> Answer:
        """Find the least objective within the cutoff; see ``Engine``."""
        from hetopt.formulations.intervals import IntervalProgram
        from hetopt.solvers.highs import HighsRun

        program = IntervalProgram(data)
        for decision in excluded:
            program.exclude(decision)
        run = HighsRun(program.program, seed=self._seed)
        verdict = run.solve(
            time_limit_s=time_limit_s,
            found=lambda values: found(program.extract(values)),
            stop=stop,
        )
        if verdict == "infeasible":
            return Answer(verdict=verdict, bound=data.cutoff + 1, decision=None)
        best: Decision | None = None
        if run.values is not None:
            best = program.extract(run.values)
        bound = data.objective_min
        if isfinite(run.bound):
            bound = max(bound, floor(run.bound * program.scale * (1 - _BOUND_MARGIN)))
        return Answer(verdict=verdict, bound=bound, decision=best)

    def settle_tie(
        self, data: ProgramData, value: int, *, excluded: Sequence[Decision]
    ) -> Decision | None:
        """Leave it to CP-SAT: equal to the tick is a matter for whole numbers."""
        from hetopt.solvers.cp_sat import CpSatEngine

        engine = CpSatEngine(self._seed)
        return engine.settle_tie(data, value, excluded=excluded)
