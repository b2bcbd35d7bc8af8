"""HiGHS on UniAP's linearised program of one (pp_size, c)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.deadline import Deadline
from hetopt.errors import SolverError
from hetopt.formulations.uniap.choice import price
from hetopt.solvers.mip.highs import HighsRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import highspy

    from hetopt.formulations.linear_program import LinearProgram
    from hetopt.formulations.uniap.choice import UniapChoice, UniapProgram
    from hetopt.formulations.uniap.program import UniapLinear
    from hetopt.solvers.race.engine import Verdict
    from hetopt.solvers.uniap.stopping import EarlyStopping

#: A program is solved when bound and objective differ by at most this share.
RELATIVE_GAP = 1e-6
#: Bounds are lowered by this share: more than HiGHS's floating point can be off.
BOUND_MARGIN = 1e-7


@dataclass(frozen=True, slots=True, kw_only=True)
class UniapAnswer:
    """What HiGHS found about one program.

    Attributes
    ----------
    verdict
        ``optimal``: ``choice`` is an optimum, up to ``RELATIVE_GAP``; ``infeasible``:
        no choice is within the cutoff; ``stopped``: out of time, or stopped early.
    bound_ns
        Valid lower bound on the objective; None when infeasible.
    """

    verdict: Verdict
    choice: UniapChoice | None
    value_ns: int | None
    bound_ns: int | None


class UniapEngine:
    """Solves one program.

    Parameters
    ----------
    form
        Its linear form, to which rows may be added: they cut off a solution that
        exceeds the memory by less than a floating-point tolerance.
    """

    def __init__(
        self, form: UniapLinear, *, stopping: EarlyStopping, seed: int
    ) -> None:
        self._form = form
        self._program: UniapProgram = form.program
        self._stopping = stopping
        self._seed = seed

    def settle(
        self,
        *,
        deadline: Deadline,
        best_ns: int | None,
        start: UniapChoice | None = None,
        found: Callable[[UniapChoice, int], None] = lambda choice, value_ns: None,
        look: Callable[[int], None] = lambda bound_ns: None,
    ) -> UniapAnswer:
        """Find a choice of least cost, or show that there is none.

        Parameters
        ----------
        deadline
            Applies in addition to the time limit of early stopping.
        best_ns
            The best value of the programs before.
        start
            A choice to start from.
        found
            Called with every better choice and its cost.
        look
            Called now and then with the bound so far.

        Raises
        ------
        SolverError
            HiGHS failed, or reported a status unknown here.
        """
        own = deadline.within(self._stopping.time_limit_s)
        while True:
            answer = self._run(own, best_ns, start, found, look)
            if answer.choice is None:
                return answer
            covers = self._exceeding(answer.choice)
            if not covers:
                return answer
            for cover in covers:
                self._form.exclude(cover)

    def _run(
        self,
        deadline: Deadline,
        best_ns: int | None,
        start: UniapChoice | None,
        found: Callable[[UniapChoice, int], None],
        look: Callable[[int], None],
    ) -> UniapAnswer:
        """Solve the form as it stands."""
        unit, clock = self._form.time_unit_ns, Deadline()
        best = math.inf if best_ns is None else float(best_ns)
        run = _WatchedRun(self._form.linear, seed=self._seed)

        def stop() -> bool:
            look(self._bound_ns(run.dual))
            return self._stopping.leaves(
                clock.elapsed_s(), run.dual * unit, run.primal * unit, best
            )

        def improved(values: Sequence[float]) -> None:
            choice = self._form.extract(np.array(values))
            if not self._exceeding(choice):
                found(choice, price(self._program, choice).total_ns)

        verdict = run.solve(
            deadline=deadline,
            found=improved,
            stop=stop,
            start=None if start is None else self._form.columns_of(start),
        )
        if verdict == "infeasible":
            return UniapAnswer(
                verdict=verdict, choice=None, value_ns=None, bound_ns=None
            )
        bound = self._bound_ns(run.bound)
        if run.values is None:
            return UniapAnswer(
                verdict=verdict, choice=None, value_ns=None, bound_ns=bound
            )
        choice = self._form.extract(np.array(run.values))
        value = price(self._program, choice).total_ns
        if verdict == "optimal":
            if value - bound > RELATIVE_GAP * value + 1:
                msg = f"HiGHS proves {bound} ns, but its solution costs {value} ns"
                raise SolverError(msg)
            bound = value
        return UniapAnswer(
            verdict=verdict, choice=choice, value_ns=value, bound_ns=min(bound, value)
        )

    def _bound_ns(self, dual: float) -> int:
        """Return the lower bound that a bound of HiGHS proves; 0 if it is infinite."""
        if not math.isfinite(dual):
            return 0
        return max(math.floor(dual * self._form.time_unit_ns * (1 - BOUND_MARGIN)), 0)

    def _exceeding(self, choice: UniapChoice) -> list[list[tuple[int, int]]]:
        """Return layers and strategies of every stage that exceeds the memory."""
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


class _WatchedRun(HighsRun):
    """A run whose bounds can be read while it solves.

    Attributes
    ----------
    dual, primal
        Bound and best objective so far; early stopping asks for them.
    """

    def __init__(self, program: LinearProgram, *, seed: int) -> None:
        super().__init__(program, seed=seed)
        self.dual, self.primal = -math.inf, math.inf
        self._highs.setOptionValue("mip_rel_gap", RELATIVE_GAP / 10)
        # Subscribed before ``solve`` subscribes ``stop``, and so called before it.
        self._highs.cbMipInterrupt.subscribe(self._look)

    def _look(self, event: highspy.highs.HighsCallbackEvent) -> None:
        self.dual = event.data_out.mip_dual_bound
        self.primal = event.data_out.mip_primal_bound
