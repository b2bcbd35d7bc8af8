"""What heuristics share: their plans are priced, ranked and told of as the race's are.

A heuristic settles no (p, q). What it says besides its plans is a lower bound that
holds for every plan of its space: the survey with which the race begins, or, where P3
or P4 is relaxed and a survey takes longer than many a heuristic, the device time there
is, shared out without loss.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hetopt.cost.table import TICK_S
from hetopt.errors import InputError
from hetopt.formulations.program import PERIOD_SCALE, scaled_below
from hetopt.formulations.space import undominated
from hetopt.interruption import check
from hetopt.problem.principles import PRUNED
from hetopt.problem.training import ANY
from hetopt.solvers.bounds.by_count import survey
from hetopt.solvers.bounds.relaxation import Relaxation
from hetopt.solvers.decisions.identical import canonical, leaders
from hetopt.solvers.decisions.pricer import Pricer
from hetopt.solvers.pools.deadline import Stopped, run_until
from hetopt.solvers.progress import Progress
from hetopt.solvers.race.device_time import share_out
from hetopt.solvers.race.first_plan import ensure_plan
from hetopt.solvers.race.ledger import Ledger
from hetopt.solvers.race.messages import NO_CUTOFF, Found, cutoff_of
from hetopt.solvers.race.outcome import result_of
from hetopt.solvers.registry import ensure_can

if TYPE_CHECKING:
    from hetopt.cost.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.problem.principles import Principles
    from hetopt.problem.problem import Problem
    from hetopt.problem.training import Pins
    from hetopt.result import Result
    from hetopt.solvers.params import RaceParams


class Search(Protocol):
    """Looks for plans until it has no more to try, or ``finds`` raises Stopped."""

    def __call__(self, finds: Finds, params: RaceParams, seed: int) -> None:
        """Offer every plan worth it to ``finds``."""
        ...


def ensure_free_units(solver: str, pins: Pins) -> None:
    """Raise InputError where pins say what a heuristic decides without asking them."""
    counted = [name for name, own in pins.clusters.items() if own.units != ANY]
    if pins.units is not None or counted:
        field = "pin.units" if pins.units else f"pin.clusters.{counted[0]}.units"
        msg = f"solver {solver} spreads the units itself: use dp, or leave this out"
        raise InputError(msg, field=field)


class Finds:
    """The plans that a heuristic finds, and the clock it works against.

    Parameters
    ----------
    principles
        What plans of the heuristic's space keep.

    Attributes
    ----------
    cutoff
        Objective, in 1 / PERIOD_SCALE ticks, above which no plan is kept.
    """

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        params: RaceParams,
        *,
        time_limit_s: float | None,
        cutoff: float | None,
        principles: Principles = PRUNED,
    ) -> None:
        self.problem = problem
        self.table = table
        self.principles = principles
        self.pricer = Pricer(problem, table)
        self.chain = self.pricer.chain
        self._on_progress = params.on_progress
        self._limit_s = time_limit_s
        self._began = time.monotonic()
        limit = cutoff_of(cutoff)
        self.ledger = Ledger(problem, table, top=params.top, limit=limit)
        self.cutoff = self.ledger.cutoff
        self._leaders = lru_cache(maxsize=None)(self._identical)
        share_out(self.ledger)

    def left_s(self) -> float | None:
        """Return the seconds left; None without a limit."""
        if self._limit_s is None:
            return None
        return self._limit_s - (time.monotonic() - self._began)

    def check_time(self) -> None:
        """Raise Stopped when the time is up, KeyboardInterrupt if the user says so."""
        check()
        left = self.left_s()
        if left is not None and left <= 0:
            raise Stopped

    def offer(self, decision: Decision) -> int | None:
        """Price a decision and take it in; None if it is no plan."""
        value = self.pricer.value(decision)
        if value is not None and value <= self.cutoff:
            copy = canonical(decision, self._leaders(decision.microbatches))
            self.take(Found(decision=copy, value=value))
        return value

    def take(self, found: Found) -> None:
        """Take in a plan that is already priced, if it is among the best."""
        ledger = self.ledger
        if found.value > self.cutoff or not ledger.find(found):
            return
        ranked = ledger.ranked()
        # A heuristic may offer very many.
        ledger.plans = {kept.decision.shape: kept for kept in ranked}
        self.cutoff = ledger.cutoff
        if ranked[0] is found:
            self._tell(found)

    def survey(self) -> None:
        """Bound every (p, q) as the race does; not where principles are relaxed.

        Raises
        ------
        Stopped
            The time is up; the bounds so far are kept.
        """
        if self.principles.relaxed:
            return
        problem, table, ledger = self.problem, self.table, self.ledger
        for q in sorted({program.microbatches for program in ledger.open()}):
            self.check_time()
            relaxation = Relaxation(
                table=table,
                part=undominated(table, table.at(q), self.chain),
                chain=self.chain,
                pins=problem.pins,
                most_stages=max(
                    p for p in problem.stage_counts if p <= self.chain.length
                ),
            )
            found = survey(relaxation, q, cutoff=None)
            for program in ledger.open():
                if program.microbatches != q:
                    continue
                bound = float(found.bound[program.stages])
                if not np.isfinite(bound):
                    program.how = "infeasible"
                    continue
                program.bound = max(program.bound, scaled_below(bound))

    def _identical(self, microbatches: int) -> tuple[int, ...]:
        part = self.table.at(microbatches)
        return leaders(self.table, part, self.problem.pins, self.principles)

    def result(self, solver: str, *, ended: bool) -> Result:
        """Check and price what was found.

        Parameters
        ----------
        ended
            Whether the heuristic tried all it knows.
        """
        result = result_of(
            self.ledger,
            self.problem,
            self.table,
            solver=solver,
            principles=self.principles,
            search_time_s=time.monotonic() - self._began,
        )
        if result.status == "optimal":
            # The bound is met, but no tie rule chose among plans that meet it.
            return replace(result, status="feasible")
        if result.status == "unknown" and ended and self.ledger.limit == NO_CUTOFF:
            reason = f"{solver} found no plan; there may be one (dp would tell)"
            return replace(result, reason=reason)
        return result

    def _tell(self, found: Found) -> None:
        if self._on_progress is None:
            return
        ledger = self.ledger
        incumbent, bound = found.value / PERIOD_SCALE * TICK_S, ledger.bound_s()
        gap = None
        if bound is not None:
            bound = min(bound, incumbent)
            gap = (incumbent - bound) / incumbent
        self._on_progress(
            Progress(
                elapsed_s=time.monotonic() - self._began,
                incumbent_s=incumbent,
                bound_s=bound,
                gap=gap,
                settled=len(ledger.programs) - len(ledger.open()),
                programs=len(ledger.programs),
            )
        )


def solve_by(
    search: Search,
    problem: Problem,
    table: CostTable,
    params: RaceParams,
    *,
    solver: str,
    time_limit_s: float | None,
    seed: int,
    cutoff: float | None = None,
    principles: Principles = PRUNED,
) -> Result:
    """Run a heuristic, then bound what it may have missed.

    Parameters
    ----------
    principles
        What plans of its space keep.

    Raises
    ------
    InputError
        If ``params`` relax a principle: the space is the heuristic's own.
    """
    ensure_can(solver, params.principles)
    finds = Finds(
        problem,
        table,
        params,
        time_limit_s=time_limit_s,
        cutoff=cutoff,
        principles=principles,
    )
    ended = False
    # Whatever is known when the clock runs out, or at Ctrl-C, is the answer.
    with suppress(Stopped, KeyboardInterrupt):
        run_until(finds.left_s(), lambda: search(finds, params, seed))
        ended = True
        run_until(finds.left_s(), finds.survey)
    left_s = finds.left_s()
    if left_s is not None and left_s <= 0:
        ensure_plan(finds.ledger, problem)
    return finds.result(solver, ended=ended)
