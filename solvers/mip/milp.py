"""The ``milp`` solver: interval programs in HiGHS, one per (p, q), in the race."""

from __future__ import annotations

from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

from hetopt.solvers.decisions.copies import all_copies
from hetopt.solvers.mip.guard import Attempt, settle_exactly
from hetopt.solvers.race.engine import Engine, EngineRun
from hetopt.solvers.race.solve import racing

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData
    from hetopt.solvers.race.engine import Answer


class MilpEngine(Engine):
    """Settles programs with HiGHS on one core."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def settle(self, data: ProgramData, how: EngineRun) -> Answer:
        """Find the least objective within the cutoff; see ``Engine``."""
        from hetopt.formulations.intervals.program import IntervalProgram
        from hetopt.solvers.mip.highs import HighsRun

        program = IntervalProgram(data)
        for decision in all_copies(how.excluded, data.leaders):
            program.exclude(decision)

        def attempt(report: Callable[[Decision], None]) -> Attempt:
            highs = HighsRun(program.program, seed=self._seed)
            verdict = highs.solve(
                deadline=how.deadline,
                found=lambda values: report(program.extract(values)),
                stop=how.stop,
                start=None if how.start is None else program.start(how.start),
            )
            values, bound = highs.values, highs.bound
            return Attempt(
                verdict=verdict,
                bound=program.bound(bound) if isfinite(bound) else None,
                claimed=None if values is None else program.bound(highs.objective),
                decision=None if values is None else program.extract(values),
            )

        return settle_exactly(
            data, attempt, how, exclude=partial(program.exclude, units=True)
        )

    def settle_tie(
        self, data: ProgramData, value: int, how: EngineRun
    ) -> Decision | None:
        """Let CP-SAT settle it: an exact tie needs whole numbers."""
        from hetopt.solvers.cp_sat import CpSatEngine

        return CpSatEngine(self._seed).settle_tie(data, value, how)


solve = racing("milp", f"{__name__}:{MilpEngine.__name__}")
