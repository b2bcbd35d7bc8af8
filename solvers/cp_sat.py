"""The ``cp-sat`` solver: CP-SAT programs, one per (p, q), in the race."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from hetopt.errors import SolverError
from hetopt.solvers.decisions.copies import all_copies
from hetopt.solvers.race.engine import Answer, Engine, EngineRun
from hetopt.solvers.race.solve import racing

if TYPE_CHECKING:
    from collections.abc import Callable

    from ortools.sat.python import cp_model

    from hetopt.formulations.cp_sat.program import PipelineProgram
    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData
    from hetopt.solvers.dp.solver import DpEngine

#: Seconds between two checks of whether to stop.
_POLL_S = 0.2
#: Digits of the tie rule are minimised together up to this product of their ranges.
_MOST_COMBINED = 2**40
#: Seconds for completing a start; a start that takes longer is dropped.
_HINT_S = 5.0


class CpSatEngine(Engine):
    """Settles programs with CP-SAT on one core."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def settle(self, data: ProgramData, how: EngineRun) -> Answer:
        """Find the least objective within the cutoff; see ``Engine``."""
        from hetopt.formulations.cp_sat.program import PipelineProgram

        program = PipelineProgram(data)
        for decision in all_copies(how.excluded, data.leaders):
            program.exclude(decision)
        if how.start is not None:
            self._hint(program, how.start)
        solver = self._solver(how.deadline.left_s())
        listener, raised = _listener(program, how.found)
        name = run(solver, program.model, listener, how.stop)
        if raised:
            raise raised[0]
        if name == "OPTIMAL":
            bound = round(solver.objective_value)
            decision = program.extract(solver.value)
            return Answer(verdict="optimal", bound=bound, decision=decision)
        if name == "INFEASIBLE":
            return Answer(verdict="infeasible", bound=data.cutoff + 1, decision=None)
        if _exceeds_64_bits(program, name):
            return _exact(self._seed).settle(data, how)
        if name not in ("FEASIBLE", "UNKNOWN"):
            msg = f"CP-SAT says {name}: {program.model.validate()}"
            raise SolverError(msg)
        return Answer(
            verdict="stopped",
            bound=max(data.objective_min, int(solver.best_objective_bound)),
            decision=program.extract(solver.value) if name == "FEASIBLE" else None,
        )

    def settle_tie(
        self, data: ProgramData, value: int, how: EngineRun
    ) -> Decision | None:
        """Minimise the tie rule's digits, most significant first; see ``Engine``.

        The programs that are left are small: they are solved to the end.
        """
        from hetopt.formulations.cp_sat.program import PipelineProgram

        program = PipelineProgram(data)
        for decision in all_copies(how.excluded, data.leaders):
            program.exclude(decision)
        model = program.model
        model.add(program.objective <= value)
        digits: list[tuple[cp_model.LinearExprT, int]] = list(program.tie_digits())
        solver = self._solver(None)
        fixed = False
        while digits:
            number, digits = _combine(digits)
            model.minimize(number)
            name = run(solver, model)
            if name == "INFEASIBLE" and not fixed:
                return None
            if _exceeds_64_bits(program, name):
                return _exact(self._seed).settle_tie(data, value, how)
            fixed = True
            if name != "OPTIMAL":
                msg = f"CP-SAT reports {name} for a program that has a plan"
                raise SolverError(msg)
            model.add(number == round(solver.objective_value))
            _hint_solution(model, solver)
        return program.extract(solver.value)

    def _hint(self, program: PipelineProgram, start: Decision) -> None:
        """Hint a value for every variable, if some solution has this decision."""
        values = program.start(start)
        if values is None:
            return
        for variable, value in values:
            program.model.add_hint(variable, value)
        # Propagation finds the values of the other variables.
        solver = self._solver(_HINT_S)
        solver.parameters.fix_variables_to_their_hinted_value = True
        name = run(solver, program.model)
        if name in ("OPTIMAL", "FEASIBLE"):
            _hint_solution(program.model, solver)
        else:
            program.model.clear_hints()  # type: ignore[no-untyped-call]

    def _solver(self, limit_s: float | None) -> cp_model.CpSolver:
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        parameters = solver.parameters
        parameters.num_workers = 1
        # Without quick restarts one worker may take minutes where few plans are left.
        parameters.search_branching = parameters.PORTFOLIO_WITH_QUICK_RESTART_SEARCH
        # The race handles Ctrl-C: CP-SAT's own handler would outlive the solve.
        parameters.catch_sigint_signal = False
        parameters.random_seed = self._seed
        # Lambda is only bounded if enforced rows are in the linear relaxation.
        parameters.linearization_level = 2
        parameters.relative_gap_limit = 0.0
        parameters.absolute_gap_limit = 0.0
        if limit_s is not None:
            parameters.max_time_in_seconds = max(limit_s, 0.01)
        return solver


def _hint_solution(model: cp_model.CpModel, solver: cp_model.CpSolver) -> None:
    """Set the whole solution of a solver as hints."""
    model.clear_hints()  # type: ignore[no-untyped-call]
    for index in range(len(model.proto.variables)):
        variable = model.get_int_var_from_proto_index(index)
        model.add_hint(variable, solver.value(variable))


def _combine(
    digits: list[tuple[cp_model.LinearExprT, int]],
) -> tuple[cp_model.LinearExprT, list[tuple[cp_model.LinearExprT, int]]]:
    """Return one number made of leading digits, and the remaining digits."""
    from ortools.sat.python import cp_model

    number: cp_model.LinearExprT = digits[0][0]
    base = digits[0][1] + 1
    used = 1
    for digit, top in digits[1:]:
        if base * (top + 1) > _MOST_COMBINED:
            break
        number = cp_model.LinearExpr.weighted_sum([number, digit], [top + 1, 1])
        base *= top + 1
        used += 1
    return number, digits[used:]


def _listener(
    program: PipelineProgram, found: Callable[[Decision], None]
) -> tuple[cp_model.CpSolverSolutionCallback, list[BaseException]]:
    """Return a callback that reports decisions, and the list of what it raised.

    An exception, such as KeyboardInterrupt, must not pass through the solver's frames.
    """
    from ortools.sat.python import cp_model

    raised: list[BaseException] = []

    class Listener(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            try:
                found(program.extract(self.value))
            except BaseException as error:  # raised again when the solver is done
                raised.append(error)
                self.stop_search()

    return Listener(), raised


def run(
    solver: cp_model.CpSolver,
    model: cp_model.CpModel,
    listener: cp_model.CpSolverSolutionCallback | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> str:
    """Solve a model and return its status; ``stop`` is called every ``_POLL_S``.

    The model is solved in a separate thread: while the main thread is in CP-SAT, Python
    handles no signal, so neither Ctrl-C nor SIGTERM would end a search.
    """
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(solver.solve, model, listener)
        try:
            while not wait([running], _POLL_S).done:
                if stop():
                    solver.stop_search()
        finally:
            # A stop before the solver has begun is lost, so it is repeated.
            while not wait([running], 0).done:
                solver.stop_search()
                wait([running], _POLL_S)
    return solver.status_name(running.result())


solve = racing("cp-sat", f"{__name__}:{CpSatEngine.__name__}", quick=True)


def _exceeds_64_bits(program: PipelineProgram, name: str) -> bool:
    """Whether CP-SAT refused a model because sums of its terms may exceed 64 bits.

    This happens if times are near the longest permitted one: CP-SAT adds up what all
    choices together could cost.
    """
    return name == "MODEL_INVALID" and "overflow" in program.model.validate()


def _exact(seed: int) -> DpEngine:
    """Return the engine for such programs: its labels add up one choice at a time."""
    from hetopt.solvers.dp.solver import DpEngine

    return DpEngine(seed)
