"""The ``miqp-*`` solvers: HetAuto's program as written, one per (p, q), in the race."""

from __future__ import annotations

import time
from abc import ABC
from typing import TYPE_CHECKING, ClassVar

from hetopt.solvers.engine import Answer
from hetopt.solvers.exact import exact_value
from hetopt.solvers.miqp_backends import GurobiBackend, HighsBackend, ScipBackend
from hetopt.solvers.race import race

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetopt.cost.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.formulations.miqp import QuadraticProgram
    from hetopt.formulations.program import ProgramData
    from hetopt.problem.problem import Problem
    from hetopt.result import Result
    from hetopt.solvers.miqp_backends import Backend, Outcome
    from hetopt.solvers.params import RaceParams

#: A solver's objective and the exact one of its solution may differ by this share.
_AGREEMENT = 1e-7


def solve_highs(
    problem: Problem,
    table: CostTable,
    params: RaceParams,
    *,
    time_limit_s: float | None,
    seed: int,
    cutoff: float | None = None,
) -> Result:
    """Find a plan of least closed form with HiGHS; see ``_solve``."""
    return _solve(
        "miqp-highs",
        MiqpHighsEngine,
        problem,
        table,
        params,
        time_limit_s=time_limit_s,
        seed=seed,
        cutoff=cutoff,
    )


def solve_scip(
    problem: Problem,
    table: CostTable,
    params: RaceParams,
    *,
    time_limit_s: float | None,
    seed: int,
    cutoff: float | None = None,
) -> Result:
    """Find a plan of least closed form with SCIP; see ``_solve``."""
    return _solve(
        "miqp-scip",
        MiqpScipEngine,
        problem,
        table,
        params,
        time_limit_s=time_limit_s,
        seed=seed,
        cutoff=cutoff,
    )


def solve_gurobi(
    problem: Problem,
    table: CostTable,
    params: RaceParams,
    *,
    time_limit_s: float | None,
    seed: int,
    cutoff: float | None = None,
) -> Result:
    """Find a plan of least closed form with Gurobi; see ``_solve``."""
    return _solve(
        "miqp-gurobi",
        MiqpGurobiEngine,
        problem,
        table,
        params,
        time_limit_s=time_limit_s,
        seed=seed,
        cutoff=cutoff,
    )


def _solve(
    solver: str,
    engine: type[MiqpEngine],
    problem: Problem,
    table: CostTable,
    params: RaceParams,
    *,
    time_limit_s: float | None,
    seed: int,
    cutoff: float | None,
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
        If the solver is not installed or has no licence.
    """
    engine.backend.ensure_available()
    return race(
        problem,
        table,
        solver=solver,
        engine=f"{engine.__module__}:{engine.__name__}",
        jobs=params.jobs,
        top=params.top,
        time_limit_s=time_limit_s,
        seed=seed,
        cutoff=cutoff,
        on_progress=params.on_progress,
        principles=params.principles,
    )


class MiqpEngine(ABC):
    """Settles programs with a solver of the MIQP, on one core.

    Solvers work in floating point: a boundary value may come out a little better
    than it is, and a stage may be let in that is a few bytes too large. So every
    solution is priced exactly; one that is not what the solver takes it for is
    ruled out, and the search goes on without it.
    """

    backend: ClassVar[type[Backend]]

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
        from hetopt.formulations.miqp import QuadraticProgram

        ends = None if time_limit_s is None else time.monotonic() + time_limit_s
        program = QuadraticProgram(data)
        if program.places.impossible:
            return Answer(verdict="infeasible", bound=data.cutoff + 1, decision=None)
        for decision in excluded:
            program.exclude(decision)
        search = _Search(program, found)
        bound = data.objective_min
        while not stop():
            left = None if ends is None else ends - time.monotonic()
            if left is not None and left <= 0:
                break
            outcome = self.backend().solve(
                program.model,
                seed=self._seed,
                found=search.report,
                stop=stop,
                time_limit_s=left,
            )
            if outcome.bound is not None:
                bound = max(bound, program.bound(outcome.bound))
            if search.proves(outcome):
                return search.answer()
            if outcome.verdict == "stopped":
                break
        return Answer(
            verdict="stopped",
            bound=bound if search.value is None else min(bound, search.value),
            decision=search.decision,
        )

    def settle_tie(
        self, data: ProgramData, value: int, *, excluded: Sequence[Decision]
    ) -> Decision | None:
        """Leave it to CP-SAT: equal to the tick is a matter for whole numbers."""
        from hetopt.solvers.cp_sat import CpSatEngine

        engine = CpSatEngine(self._seed)
        return engine.settle_tie(data, value, excluded=excluded)


class MiqpHighsEngine(MiqpEngine):
    """The linearised program in HiGHS."""

    backend = HighsBackend


class MiqpScipEngine(MiqpEngine):
    """The program as it is in SCIP."""

    backend = ScipBackend


class MiqpGurobiEngine(MiqpEngine):
    """The program as it is in Gurobi."""

    backend = GurobiBackend


class _Search:
    """The best decision of one program so far, by its exact value."""

    def __init__(
        self, program: QuadraticProgram, found: Callable[[Decision], None]
    ) -> None:
        self._program = program
        self._found = found
        self.decision: Decision | None = None
        self.value: int | None = None

    def report(self) -> None:
        """Tell of the solution that is loaded, if it fits and is better."""
        decision = self._program.extract()
        value = exact_value(decision, self._program.data)
        if value is not None and self._keep(decision, value):
            self._found(decision)

    def proves(self, outcome: Outcome) -> bool:
        """Whether a solver's outcome settles the program.

        Otherwise its solution, which is not what the solver takes it for, has been
        ruled out.
        """
        program = self._program
        if outcome.verdict == "infeasible":
            return True
        if outcome.objective is None:
            return False
        decision = program.extract()
        value = exact_value(decision, program.data)
        if value is not None:
            self._keep(decision, value)
        if outcome.verdict == "stopped":
            return False
        claimed = program.bound(outcome.objective)
        limit = claimed * (1 + _AGREEMENT) + program.data.part.microbatches + 2
        if self.value is not None and self.value <= limit:
            return True
        program.exclude(decision, units=True)
        return False

    def answer(self) -> Answer:
        """Return what is proven."""
        if self.decision is None or self.value is None:
            cutoff = self._program.data.cutoff
            return Answer(verdict="infeasible", bound=cutoff + 1, decision=None)
        return Answer(verdict="optimal", bound=self.value, decision=self.decision)

    def _keep(self, decision: Decision, value: int) -> bool:
        """Take a decision within the cutoff if it is the best; say whether it is."""
        if value > self._program.data.cutoff:
            return False
        if self.value is not None and self.value <= value:
            return False
        self.decision, self.value = decision, value
        return True
