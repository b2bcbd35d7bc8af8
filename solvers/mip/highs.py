"""HiGHS through highspy, without Pyomo: programs, options, results."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING

import highspy
import numpy as np

from hetopt.errors import SolverError
from hetopt.solvers.mip.status import HIGHS, verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hetopt.base.deadline import Deadline
    from hetopt.formulations.linear_program import LinearProgram
    from hetopt.solvers.race.engine import Verdict

#: Tight, because a binary that is not quite whole may give a better objective. HiGHS
#: accepts no tolerance below 1e-10; its default for the gap is 1e-4.
_OPTIONS = {
    "output_flag": False,
    # Presolve of 1.11 to 1.13 finds feasible programs infeasible, by its forcing
    # rows (tests/solvers/mip/test_milp.py has one; HiGHS#2303); with forcing rows off
    # it corrupts memory. Interval programs solve faster without presolve anyway.
    "presolve": "off",
    "threads": 1,
    "mip_rel_gap": 1e-10,
    "mip_abs_gap": 0.0,
    "mip_feasibility_tolerance": 1e-9,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
    # The costs of one unit may be as small a share of the period.
    "small_matrix_value": 1e-12,
}


_STDOUT = 1


class HighsRun:
    """One program in HiGHS.

    Parameters
    ----------
    seed
        Seed of HiGHS's random numbers.
    """

    def __init__(self, program: LinearProgram, *, seed: int = 0) -> None:
        highs = self._highs = highspy.Highs()
        for name, value in _OPTIONS.items():
            _ensure(highs.setOptionValue(name, value), name)
        _ensure(highs.setOptionValue("random_seed", seed % 2**31), "random_seed")
        _ensure(highs.passModel(_lp(program)), "passModel")

    def solve(
        self,
        *,
        deadline: Deadline | None = None,
        found: Callable[[Sequence[float]], None] = lambda values: None,
        stop: Callable[[], bool] = lambda: False,
        start: Mapping[int, float] | None = None,
    ) -> Verdict:
        """Solve; exceptions of callbacks, such as Ctrl-C, are raised from here.

        Parameters
        ----------
        found
            Called with the columns of every better solution.
        stop
            Called from time to time: whether to stop.
        start
            Values of columns to start from; HiGHS completes them, or drops them.
        """
        highs = self._highs
        self._begin(deadline, start)
        failure: list[BaseException] = []

        def guarded(act: Callable[[], bool]) -> bool:
            # A Python exception must not unwind C++ frames.
            try:
                return act()
            except BaseException as error:
                failure.append(error)
                return True

        def improved(event: highspy.highs.HighsCallbackEvent) -> None:
            values = list(event.data_out.mip_solution)

            def tell() -> bool:
                found(values)
                return False

            guarded(tell)

        def asked(event: highspy.highs.HighsCallbackEvent) -> None:
            if failure or guarded(stop):
                event.interrupt()

        highs.cbMipImprovingSolution.subscribe(improved)
        highs.cbMipInterrupt.subscribe(asked)
        highs.cbSimplexInterrupt.subscribe(asked)
        # Another user of HiGHS in this process may have set other threads.
        highspy.Highs.resetGlobalScheduler(True)
        with _silence():
            status = highs.run()
        _ensure(status, "run")
        if failure:
            raise failure[0]
        return verdict_of(highs.getModelStatus().name, HIGHS, "HiGHS")

    def _begin(
        self, deadline: Deadline | None, start: Mapping[int, float] | None
    ) -> None:
        """Give HiGHS its start and its time limit."""
        if start:
            columns = np.array(list(start), dtype=np.int32)
            values = np.array(list(start.values()), dtype=np.float64)
            # HiGHS refuses values outside the columns' bounds: then there is no start.
            self._highs.setSolution(len(start), columns, values)
        left_s = None if deadline is None else deadline.left_s()
        if left_s is not None:
            limit = max(left_s, 0.01)
            _ensure(self._highs.setOptionValue("time_limit", limit), "time_limit")

    @property
    def values(self) -> Sequence[float] | None:
        """Every column of the best solution; None if there is none."""
        info = self._highs.getInfo()
        if info.primal_solution_status != highspy.kSolutionStatusFeasible:
            return None
        values: Sequence[float] = self._highs.getSolution().col_value
        return values

    @property
    def objective(self) -> float:
        """Objective of the best solution."""
        return float(self._highs.getInfo().objective_function_value)

    @property
    def bound(self) -> float:
        """Lower bound on the objective; -inf if there is none."""
        return float(self._highs.getInfo().mip_dual_bound)


@contextmanager
def _silence() -> Iterator[None]:
    """Keep this process's standard output quiet: 1.12 prints a line no option stops.

    (HiGHS#2783.) The line would be mixed into the output of ``--json``.
    """
    if sys.stdout is None:
        # It is closed, or was never open.
        yield
        return
    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    libc.fflush(None)
    kept = os.dup(_STDOUT)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDOUT)
    os.close(nowhere)
    try:
        yield
    finally:
        libc.fflush(None)
        os.dup2(kept, _STDOUT)
        os.close(kept)


def _lp(program: LinearProgram) -> highspy.HighsLp:
    matrix = program.matrix()
    lp = highspy.HighsLp()
    lp.num_col_ = len(program.names)
    lp.num_row_ = len(program.row_names)
    lp.col_cost_ = np.array(program.cost)
    lp.col_lower_ = np.array(program.lower)
    lp.col_upper_ = _bounds(program.upper)
    lp.row_lower_ = _bounds(program.row_lower)
    lp.row_upper_ = _bounds(program.row_upper)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = matrix.starts
    lp.a_matrix_.index_ = matrix.columns
    lp.a_matrix_.value_ = matrix.values
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    lp.integrality_ = [kinds[integer] for integer in program.integer]
    lp.col_names_ = program.names
    lp.row_names_ = program.row_names
    return lp


def _bounds(values: list[float]) -> np.typing.NDArray[np.float64]:
    bounds = np.array(values, dtype=np.float64)
    bounds[bounds == inf] = highspy.kHighsInf
    bounds[bounds == -inf] = -highspy.kHighsInf
    return bounds


def _ensure(status: highspy.HighsStatus, what: str) -> None:
    """Raise SolverError if HiGHS refuses; a warning is no refusal."""
    if status == highspy.HighsStatus.kError:
        msg = f"HiGHS refuses {what}"
        raise SolverError(msg)
