"""The ``miqp-*`` solvers: HetAuto's program as written, one per (p, q), in the race."""

from __future__ import annotations

from abc import ABC
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from hetopt.solvers.decisions.copies import all_copies
from hetopt.solvers.mip.backends import (
    GurobiBackend,
    HighsBackend,
    RunOptions,
    ScipBackend,
)
from hetopt.solvers.mip.guard import Attempt, settle_exactly
from hetopt.solvers.race.engine import Answer, Engine, EngineRun
from hetopt.solvers.race.solve import racing

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData
    from hetopt.solvers.mip.backends import Backend
    from hetopt.solvers.request import Solve


class MiqpEngine(Engine, ABC):
    """Settles programs with a solver of the MIQP, on one core."""

    backend: ClassVar[type[Backend]]

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def settle(self, data: ProgramData, how: EngineRun) -> Answer:
        """Find the least objective within the cutoff; see ``Engine``."""
        from hetopt.formulations.miqp.program import QuadraticProgram

        program = QuadraticProgram(data)
        if program.places.impossible:
            return Answer(verdict="infeasible", bound=data.cutoff + 1, decision=None)
        for decision in all_copies(how.excluded, data.leaders):
            program.exclude(decision)

        def attempt(report: Callable[[Decision], None]) -> Attempt:
            options = RunOptions(
                seed=self._seed,
                found=lambda: report(program.extract()),
                stop=how.stop,
                deadline=how.deadline,
                start=how.start is not None and program.start(how.start),
            )
            outcome = self.backend().solve(program.model, options)
            bound, objective = outcome.bound, outcome.objective
            return Attempt(
                verdict=outcome.verdict,
                bound=None if bound is None else program.bound(bound),
                claimed=None if objective is None else program.bound(objective),
                decision=None if objective is None else program.extract(),
            )

        return settle_exactly(
            data, attempt, how, exclude=partial(program.exclude, units=True)
        )

    def settle_tie(
        self, data: ProgramData, value: int, how: EngineRun
    ) -> Decision | None:
        """Let CP-SAT settle it: an exact tie needs whole numbers.

        CP-SAT has no program without P3 or P4: then the plan that was found is kept.
        """
        from hetopt.solvers.cp_sat import CpSatEngine

        if data.principles.relaxed:
            return None

        return CpSatEngine(self._seed).settle_tie(data, value, how)


class MiqpHighsEngine(MiqpEngine):
    """The linearised program in HiGHS."""

    backend = HighsBackend


class MiqpScipEngine(MiqpEngine):
    """The unchanged program in SCIP."""

    backend = ScipBackend


class MiqpGurobiEngine(MiqpEngine):
    """The unchanged program in Gurobi."""

    backend = GurobiBackend


def _solve(name: str, engine: type[MiqpEngine]) -> Solve:
    """Return the ``solve`` function of one of these engines."""
    return racing(
        name,
        f"{engine.__module__}:{engine.__name__}",
        ensure_available=engine.backend.ensure_available,
    )


solve_highs = _solve("miqp-highs", MiqpHighsEngine)
solve_scip = _solve("miqp-scip", MiqpScipEngine)
solve_gurobi = _solve("miqp-gurobi", MiqpGurobiEngine)
