"""The ``milp`` solver: interval programs in HiGHS, one per (p, q), in the race."""

from __future__ import annotations

from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

from hetopt.solvers.decisions.copies import all_copies
from hetopt.solvers.mip.guard import Attempt, settle_exactly
from hetopt.solvers.race.engine import Engine
from hetopt.solvers.race.solve import racing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetopt.base.deadline import Deadline
    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData
    from hetopt.solvers.race.engine import Answer


class MilpEngine(Engine):
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
        deadline: Deadline,
        start: Decision | None = None,
    ) -> Answer:
        """Find the least objective within the cutoff; see ``Engine``."""
        from hetopt.formulations.intervals.program import IntervalProgram
        from hetopt.solvers.mip.highs import HighsRun

        program = IntervalProgram(data)
        for decision in all_copies(excluded, data.leaders):
            program.exclude(decision)

        def run(*, report: Callable[[Decision], None], deadline: Deadline) -> Attempt:
            highs = HighsRun(program.program, seed=self._seed)
            verdict = highs.solve(
                deadline=deadline,
                found=lambda values: report(program.extract(values)),
                stop=stop,
                start=None if start is None else program.start(start),
            )
            values, bound = highs.values, highs.bound
            return Attempt(
                verdict=verdict,
                bound=program.bound(bound) if isfinite(bound) else None,
                claimed=None if values is None else program.bound(highs.objective),
                decision=None if values is None else program.extract(values),
            )

        return settle_exactly(
            data,
            run,
            exclude=partial(program.exclude, units=True),
            found=found,
            stop=stop,
            deadline=deadline,
        )

    def settle_tie(
        self,
        data: ProgramData,
        value: int,
        *,
        excluded: Sequence[Decision],
        deadline: Deadline,
    ) -> Decision | None:
        """Let CP-SAT settle it: an exact tie needs whole numbers."""
        from hetopt.solvers.cp_sat import CpSatEngine

        engine = CpSatEngine(self._seed)
        return engine.settle_tie(data, value, excluded=excluded, deadline=deadline)


solve = racing("milp", f"{__name__}:{MilpEngine.__name__}")
