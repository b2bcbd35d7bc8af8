"""HiGHS on UniAP's linearised program of one (pp_size, c)."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import highspy
import numpy as np

from hetopt.errors import SolverError
from hetopt.formulations.uniap_choice import price

if TYPE_CHECKING:
    from hetopt.formulations.linear_program import LinearProgram
    from hetopt.formulations.uniap import UniapLinear
    from hetopt.formulations.uniap_choice import UniapChoice, UniapProgram
    from hetopt.solvers.uniap_stopping import EarlyStopping

#: A program is solved when bound and objective differ by at most this share.
RELATIVE_GAP = 1e-6
#: Bounds are lowered by this share: more than HiGHS's floating point can be off.
BOUND_MARGIN = 1e-7
#: Seconds between two looks at whether the user pressed Ctrl-C.
_POLL_S = 0.1

Verdict = Literal["optimal", "infeasible", "stopped"]

_STATUS = highspy.HighsModelStatus
_VERDICTS: dict[Any, Verdict] = {
    _STATUS.kOptimal: "optimal",
    _STATUS.kInfeasible: "infeasible",
    # Every column is bounded from below and costs at least 0: it cannot be
    # unbounded.
    _STATUS.kUnboundedOrInfeasible: "infeasible",
    _STATUS.kTimeLimit: "stopped",
    _STATUS.kInterrupt: "stopped",
    _STATUS.kHighsInterrupt: "stopped",
    _STATUS.kIterationLimit: "stopped",
    _STATUS.kSolutionLimit: "stopped",
    _STATUS.kMemoryLimit: "stopped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UniapAnswer:
    """What HiGHS found out about one program.

    Attributes
    ----------
    verdict
        ``optimal``: ``choice`` is a best one, up to ``RELATIVE_GAP``;
        ``infeasible``: nothing within the cutoff; ``stopped``: out of time.
    bound_ns
        Valid lower bound on the objective; None when infeasible.
    """

    verdict: Verdict
    choice: UniapChoice | None
    value_ns: int | None
    bound_ns: int | None


class UniapEngine:
    """Solves one program at a time.

    Parameters
    ----------
    program
        Its linear form, which may get more rows: a solution that exceeds the memory
        by less than a floating-point tolerance is cut off, exactly.
    """

    def __init__(
        self, form: UniapLinear, *, stopping: EarlyStopping, seed: int
    ) -> None:
        self._form = form
        self._program: UniapProgram = form.program
        self._stopping = stopping
        self._seed = seed
        self._interrupted = threading.Event()

    def settle(
        self,
        *,
        time_limit_s: float | None,
        best_ns: int | None,
        start: UniapChoice | None = None,
    ) -> UniapAnswer:
        """Find a choice of least cost, or show that there is none.

        Parameters
        ----------
        time_limit_s
            Wall-clock limit, beside that of early stopping.
        best_ns
            The best of the programs before.
        start
            A choice to start from.

        Raises
        ------
        KeyboardInterrupt
            The user pressed Ctrl-C; HiGHS has stopped.
        SolverError
            HiGHS failed, or reported a status unknown here.
        """
        limits = [
            limit
            for limit in (time_limit_s, self._stopping.time_limit_s)
            if limit is not None
        ]
        end = time.monotonic() + min(limits) if limits else None
        while True:
            left = None if end is None else max(end - time.monotonic(), 0.0)
            answer = self._run(left, best_ns, start)
            if answer.choice is None:
                return answer
            covers = self._exceeding(answer.choice)
            if not covers:
                return answer
            for cover in covers:
                self._form.exclude(cover)

    def _run(
        self, time_limit_s: float | None, best_ns: int | None, start: UniapChoice | None
    ) -> UniapAnswer:
        unit = self._form.time_unit_ns
        highs = load(self._form.linear)
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("random_seed", self._seed % 2**31)
        highs.setOptionValue("mip_rel_gap", RELATIVE_GAP / 10)
        if time_limit_s is not None:
            highs.setOptionValue("time_limit", time_limit_s)
        best = math.inf if best_ns is None else float(best_ns)

        def look(event: Any) -> None:
            out = event.data_out
            if self._interrupted.is_set() or self._stopping.leaves(
                out.running_time,
                out.mip_dual_bound * unit,
                out.mip_primal_bound * unit,
                best,
            ):
                event.interrupt()

        highs.cbMipInterrupt += look
        if start is not None:
            chosen = self._form.columns_of(start)
            highs.setSolution(
                len(chosen),
                np.array(list(chosen), dtype=np.int32),
                np.array(list(chosen.values())),
            )
        self._wait(highs)
        verdict = verdict_of(highs)
        if verdict == "infeasible":
            return UniapAnswer(
                verdict=verdict, choice=None, value_ns=None, bound_ns=None
            )
        info = highs.getInfo()
        dual = info.mip_dual_bound * unit
        bound = math.floor(dual * (1 - BOUND_MARGIN)) if math.isfinite(dual) else 0
        if (
            info.primal_solution_status
            != highspy.SolutionStatus.kSolutionStatusFeasible
        ):
            return UniapAnswer(
                verdict=verdict, choice=None, value_ns=None, bound_ns=max(bound, 0)
            )
        choice = self._form.extract(np.array(highs.getSolution().col_value))
        value = price(self._program, choice).total_ns
        if verdict == "optimal":
            if value - dual > RELATIVE_GAP * max(value, 1):
                msg = f"HiGHS proves {dual:.0f} ns, but its solution costs {value} ns"
                raise SolverError(msg)
            bound = value
        return UniapAnswer(
            verdict=verdict, choice=choice, value_ns=value, bound_ns=min(bound, value)
        )

    def _wait(self, highs: highspy.Highs) -> None:
        """Run HiGHS in a thread, so that Ctrl-C reaches this one."""
        thread = threading.Thread(target=highs.run, daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_POLL_S)
        except KeyboardInterrupt:
            self._interrupted.set()
            thread.join()
            raise

    def _exceeding(self, choice: UniapChoice) -> list[list[tuple[int, int]]]:
        """Layers and strategies of every stage that does not fit after all."""
        used = price(self._program, choice).memory_bytes
        return [
            [
                (u, choice.strategy[u])
                for u, stage in enumerate(choice.stage)
                if stage == i
            ]
            for i, size in enumerate(used)
            if size > self._program.graph.memory_bytes
        ]


def load(linear: LinearProgram) -> highspy.Highs:
    """Hand a program to HiGHS, silent; nothing is solved.

    Raises
    ------
    SolverError
        HiGHS does not accept it.
    """
    matrix = linear.matrix()
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(linear.names), len(linear.row_names)
    lp.col_cost_ = np.array(linear.cost)
    lp.col_lower_, lp.col_upper_ = np.array(linear.lower), np.array(linear.upper)
    lp.row_lower_ = np.array(linear.row_lower)
    lp.row_upper_ = np.array(linear.row_upper)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = matrix.starts
    lp.a_matrix_.index_ = matrix.columns
    lp.a_matrix_.value_ = matrix.values
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    lp.integrality_ = [kinds[integer] for integer in linear.integer]
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    if highs.passModel(lp) == highspy.HighsStatus.kError:
        msg = "HiGHS does not accept the program"
        raise SolverError(msg)
    return highs


def verdict_of(highs: highspy.Highs) -> Verdict:
    """Translate HiGHS's status; SolverError if it is an error or unknown."""
    status = highs.getModelStatus()
    if status not in _VERDICTS:
        msg = f"HiGHS says {highs.modelStatusToString(status)}"
        raise SolverError(msg)
    return _VERDICTS[status]
