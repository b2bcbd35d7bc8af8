"""The solvers of the MIQP: HiGHS (linearised), SCIP and Gurobi (unchanged)."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hetopt.errors import InputError, SolverError
from hetopt.solvers.mip.status import verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hetopt.base.deadline import Deadline
    from hetopt.solvers.race.engine import Verdict

#: Statuses of ``SCIPgetStatus``, as PySCIPOpt spells them. The objective is a sum of
#: times, never less than 0, so 'infeasible or unbounded' means infeasible.
SCIP_STATUS: Mapping[str, Verdict] = MappingProxyType(
    {
        "optimal": "optimal",
        "infeasible": "infeasible",
        "inforunbd": "infeasible",
        "timelimit": "stopped",
        "userinterrupt": "stopped",
    }
)
#: Names of Pyomo's ``TerminationCondition``, which the Gurobi interface sets.
GUROBI_STATUS: Mapping[str, Verdict] = MappingProxyType(
    {
        "convergenceCriteriaSatisfied": "optimal",
        "provenInfeasible": "infeasible",
        "infeasibleOrUnbounded": "infeasible",
        "maxTimeLimit": "stopped",
        "interrupted": "stopped",
    }
)
#: Tolerance of solvers for whole variables and for constraints.
_TOLERANCE = 1e-9
#: The same for SCIP, well above its epsilon of 1e-9: with 1e-9 for both, presolve
#: finds feasible programs infeasible (two of 200 of ours, PySCIPOpt 6.3).
_SCIP_TOLERANCE = 1e-7
_SHORTEST_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to solve a model.

    Attributes
    ----------
    found
        Called when a better solution is loaded into the model.
    stop
        Called from time to time: whether to stop.
    start
        Whether to start from the values of the model's whole variables. The solver
        completes them, and drops them if they lead to no solution.
    """

    seed: int
    found: Callable[[], None]
    stop: Callable[[], bool]
    deadline: Deadline
    start: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of solving a model.

    Attributes
    ----------
    bound
        Lower bound on the objective, in the model's unit; None if there is none.
    objective
        Objective of the best solution, which is then loaded into the model, or None.
    """

    verdict: Verdict
    bound: float | None
    objective: float | None


class Backend(ABC):
    """A solver of Pyomo models with products of binaries and bounded variables."""

    @staticmethod
    @abstractmethod
    def ensure_available() -> None:
        """Raise InputError, naming what is missing, if the solver cannot be used."""

    @abstractmethod
    def solve(self, model: Any, run: RunOptions) -> Outcome:
        """Solve a model; exceptions of callbacks are raised from here."""


class HighsBackend(Backend):
    """HiGHS on the linearised model; it does not accept products."""

    @staticmethod
    def ensure_available() -> None:
        """HiGHS comes with hetopt."""

    def solve(self, model: Any, run: RunOptions) -> Outcome:
        """Linearise a copy of the model and solve it; see ``Backend``."""
        from hetopt.formulations.miqp.linearise import linear_program, linearise
        from hetopt.solvers.mip.highs import HighsRun

        linear = model.clone()
        linearise(linear)
        program, _ = linear_program(linear)
        own = [model.find_component(name) for name in program.names]

        def load(values: Sequence[float]) -> None:
            for variable, value in zip(own, values, strict=True):
                if variable is not None:
                    variable.set_value(value, skip_validation=True)

        def improved(values: Sequence[float]) -> None:
            load(values)
            run.found()

        given = {
            column: float(variable.value)
            for column, variable in enumerate(own)
            if run.start and _is_given(variable)
        }
        highs = HighsRun(program, seed=run.seed)
        verdict = highs.solve(
            deadline=run.deadline, found=improved, stop=run.stop, start=given
        )
        values, bound = highs.values, _finite(highs.bound)
        if values is None or verdict == "infeasible":
            return Outcome(verdict=verdict, bound=bound, objective=None)
        load(values)
        return Outcome(verdict=verdict, bound=bound, objective=highs.objective)


class ScipBackend(Backend):
    """SCIP on the unchanged model, through Pyomo and PySCIPOpt."""

    @staticmethod
    def ensure_available() -> None:
        """PySCIPOpt is an extra."""
        if importlib.util.find_spec("pyscipopt") is None:
            msg = (
                "miqp-scip needs PySCIPOpt, which is not installed: "
                "pip install '.[scip]' in hetopt's source"
            )
            raise InputError(msg, field="--solver")

    def solve(self, model: Any, run: RunOptions) -> Outcome:
        """Solve; see ``Backend``."""
        from hetopt.solvers.mip.scip import WatchedScip

        scip = WatchedScip(found=run.found, stop=run.stop)
        results = scip.solve(
            model,
            **_common(run),
            solver_options={
                # With a longer log Pyomo's interface hangs past its time limit.
                "display/verblevel": 0,
                # The race handles Ctrl-C.
                "misc/catchctrlc": False,
                "numerics/feastol": _SCIP_TOLERANCE,
                "randomization/randomseedshift": run.seed % 2**31,
            },
        )
        if scip.failure is not None:
            raise scip.failure
        verdict = verdict_of(scip.status, SCIP_STATUS, "SCIP")
        return _loaded(verdict, results)


class GurobiBackend(Backend):
    """Gurobi on the unchanged model, through Pyomo and the user's licence."""

    @staticmethod
    def ensure_available() -> None:
        """Gurobipy and its licence come from the user."""
        if importlib.util.find_spec("gurobipy") is None:
            msg = (
                "miqp-gurobi needs gurobipy and a Gurobi licence of your own: "
                "gurobipy is not installed"
            )
            raise InputError(msg, field="--solver")
        from pyomo.contrib.solver.solvers.gurobi.gurobi_persistent import (
            GurobiPersistent,
        )

        if GurobiPersistent().available().name in ("BadLicense", "BadVersion"):
            msg = (
                "gurobipy is installed, but its Gurobi licence is missing or invalid, "
                "or its version is too old"
            )
            raise InputError(msg, field="--solver")

    def solve(self, model: Any, run: RunOptions) -> Outcome:
        """Solve; see ``Backend``. ``found`` is never called.

        Raises
        ------
        SolverError
            If Gurobi refuses, for example a large model under the licence pip installs.
        """
        import gurobipy  # pyright: ignore[reportMissingImports]
        from pyomo.contrib.solver.solvers.gurobi.gurobi_persistent import (
            GurobiPersistent,
        )

        failure: list[BaseException] = []

        def ask(solver_model: Any, where: int) -> None:
            if where != gurobipy.GRB.Callback.POLLING:
                try:
                    if run.stop():
                        solver_model.terminate()
                except BaseException as error:
                    failure.append(error)
                    solver_model.terminate()

        gurobi = GurobiPersistent()
        gurobi._callback = ask
        try:
            results = gurobi.solve(
                model,
                **_common(run),
                solver_options={
                    "OutputFlag": 0,
                    "Seed": run.seed % 2**31,
                    "IntFeasTol": _TOLERANCE,
                    "FeasibilityTol": _TOLERANCE,
                },
            )
        except gurobipy.GurobiError as error:
            msg = (
                f"Gurobi: {error} (the licence that pip installs with gurobipy "
                "allows models of up to 2,000 variables and 200 products)"
            )
            raise SolverError(msg) from error
        if failure:
            raise failure[0]
        name = results.termination_condition.name
        return _loaded(verdict_of(name, GUROBI_STATUS, "Gurobi"), results)


def _common(run: RunOptions) -> dict[str, Any]:
    """Return the options that all of Pyomo's interfaces get."""
    left_s = run.deadline.left_s()
    return {
        "load_solutions": False,
        "raise_exception_on_nonoptimal_result": False,
        "time_limit": None if left_s is None else max(left_s, _SHORTEST_S),
        "threads": 1,
        "rel_gap": 0.0,
        "abs_gap": 0.0,
        "warmstart_discrete_vars": run.start,
    }


def _is_given(variable: Any) -> bool:
    """Whether a variable has a value that a solver starts from."""
    return variable is not None and variable.is_integer() and variable.value is not None


def _loaded(verdict: Verdict, results: Any) -> Outcome:
    """Load the best solution, if there is one, into the model."""
    objective = results.incumbent_objective
    if objective is not None and verdict != "infeasible":
        results.solution_loader.load_vars()
    return Outcome(
        verdict=verdict, bound=_finite(results.objective_bound), objective=objective
    )


def _finite(bound: float | None) -> float | None:
    return bound if bound is not None and isfinite(bound) else None
