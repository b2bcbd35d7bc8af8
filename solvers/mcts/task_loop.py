"""What both tree searches share: tasks for a pool, cheap bounds, the result."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from functools import cache
from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.formulations.chain import Chain
from hetopt.formulations.program import scaled_below
from hetopt.interruption import released
from hetopt.problem.principles import PRUNED
from hetopt.solvers.bounds.bound_q import BoundTask
from hetopt.solvers.decisions.identical import canonical, leaders
from hetopt.solvers.pools.deadline import Stopped, run_until
from hetopt.solvers.race.device_time import share_out
from hetopt.solvers.race.first_plan import ensure_plan
from hetopt.solvers.race.ledger import Ledger
from hetopt.solvers.race.messages import NO_CUTOFF, Payload, SurveyTask, cutoff_of
from hetopt.solvers.race.outcome import result_of
from hetopt.solvers.race.q_order import QOrder
from hetopt.solvers.race.task_loop import TaskLoop, open_pool
from hetopt.solvers.race.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.cost.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training import Pins
    from hetopt.result import Result
    from hetopt.solvers.bounds.by_count import Survey
    from hetopt.solvers.params import RaceParams
    from hetopt.solvers.race.messages import Found


#: Share of the time limit that bounds may take before the search begins.
_SHARE = 0.05


class SearchLoop(TaskLoop):
    """Takes the tasks of a tree search."""

    def __init__(self, pins: Pins, ledger: Ledger, *rest: Any, **more: Any) -> None:
        super().__init__(ledger, *rest, **more)
        self._leaders = cache(
            lambda q: leaders(ledger.table, ledger.table.at(q), pins, PRUNED)
        )

    def find(self, found: Found) -> None:
        """Take in a plan as its canonical copy: exchanging twins makes no other."""
        decision = found.decision
        groups = self._leaders(decision.microbatches)
        super().find(replace(found, decision=canonical(decision, groups)))


def seek(
    problem: Problem,
    table: CostTable,
    params: RaceParams,
    *,
    solver: str,
    make: Callable[..., Callable[[Any], Any]],
    payload: Any,
    run: Callable[[SearchLoop], None],
    began: float,
    time_limit_s: float | None,
    cutoff: float | None,
) -> Result:
    """Run a tree search until it ends, the clock runs out or the user says stop.

    Parameters
    ----------
    make, payload
        What the workers run, as ``Pool`` has it.
    run
        Gives the loop its tasks.
    began
        When the clock began to run.
    cutoff
        Seconds; plans above it are of no interest.

    Notes
    -----
    Of every (p, q) nothing is known but a cheap bound. Where the plan meets it the gap
    is 0, but the status stays feasible: no tie rule chose among plans that meet it.
    """
    limit = cutoff_of(cutoff)
    ledger = Ledger(problem, table, top=params.top, limit=limit)
    ended = False
    if ledger.open():
        pool = open_pool(params.executor, params.jobs, make, payload)
        loop = SearchLoop(
            problem.pins,
            ledger,
            pool,
            began=began,
            limit_s=time_limit_s,
            on_progress=params.on_progress,
            journal=None,
        )
        try:
            with suppress(Stopped, KeyboardInterrupt):
                run_until(loop.left(), lambda: _bound(loop, problem))
                run(loop)
                ended = True
        finally:
            pool.close()
    if time_limit_s is not None and not ended:
        ensure_plan(ledger, problem)
    result = result_of(
        ledger,
        problem,
        table,
        solver=solver,
        principles=params.principles,
        search_time_s=time.monotonic() - began,
    )
    if result.status == "optimal":
        return replace(result, status="feasible")
    if result.status == "unknown" and ended and cutoff is None:
        reason = f"{solver} found no plan; there may be one (dp would tell)"
        return replace(result, reason=reason)
    return result


def _bound(loop: SearchLoop, problem: Problem) -> None:
    """Bound every (p, q): by the device time, then by what takes a little longer."""
    ledger = loop.ledger
    share_out(ledger)
    worker = Worker(
        Payload(
            problem=problem,
            table=ledger.table,
            engine="hetopt.solvers.dp.solver:DpEngine",
            seed=0,
            top=1,
        ),
        SimpleNamespace(value=NO_CUTOFF),
        lambda found: None,
    )
    order = QOrder(ledger) if Chain.of(ledger.table).is_uniform else None
    most_s = inf if loop.limit_s is None else _SHARE * loop.limit_s
    for q in sorted({program.microbatches for program in ledger.open()}):
        if time.monotonic() - loop.began > most_s:
            return
        if order is not None:
            glance = BoundTask(microbatches=q)
            with released():
                found = worker.run(glance)
            order.take(glance, found)
            continue
        task = SurveyTask(microbatches=q, cutoff=None)
        with released():
            bounds = worker.run(task)
        take_survey(ledger, task, bounds)


def take_survey(ledger: Ledger, task: SurveyTask, found: Survey) -> None:
    """Take in the bounds on every p of one q."""
    for program in ledger.open():
        if program.microbatches != task.microbatches:
            continue
        bound = float(found.bound[program.stages])
        if np.isfinite(bound):
            program.bound = max(program.bound, scaled_below(bound))
        else:
            program.how = "infeasible"
