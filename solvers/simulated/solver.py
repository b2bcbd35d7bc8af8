"""``--objective simulated``: the plan of least simulated time, and its proof.

First, the solver that the user names looks for the plan of least closed form; if the
proof takes long, it ends once the plan is near its bound. The simulated time of the
plan is the first limit: the best plan takes no longer. Free warm-up counts have no
closed form of their own: there it is the simulated time of the best plan under a
schedule that prescribes them (``_STARTS``), with the best counts. If a plan of another
problem is the limit already, the first step comes before: often it leaves nothing. Then

1. every (p, q) is bounded, roughly (``simulated.bounds``);
2. the most promising (p, q) are searched for a few seconds each (``simulated.walk``):
   a better plan lowers the limit;
3. the (p, q) still open are bounded closely;
4. they are searched, best bound first; each better plan lowers the limit for all.

Free warm-up counts are chosen as well (``simulated.warmups``): among those of a plan's
least simulated time the ones of least sum, then the lexicographically smallest.

Of several chunks a stage the closed form is a longest path as well, and is minimised in
the same way: then it takes the place of the simulated time.

With too many clusters for tables over their subsets, bounds use only the capacity of
all devices, and nothing is searched: the result has a gap.

Values and bounds of the ledger are simulated times, in 1 / PERIOD_SCALE ticks.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import count
from math import ceil
from typing import TYPE_CHECKING

from hetopt.base.deadline import Stopped
from hetopt.base.run_until import run_until
from hetopt.cost.table.ticks import TICK_S
from hetopt.errors import InputError
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.problem.digest import problem_digest
from hetopt.problem.training.principles import PRUNED
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.arrays.windows import INFINITE
from hetopt.solvers.loading import load
from hetopt.solvers.pools.opening import open_pool
from hetopt.solvers.progress import without_times
from hetopt.solvers.race.messages import NO_CUTOFF, cutoff_of
from hetopt.solvers.race.outcome import result_of
from hetopt.solvers.simulated.improving import improve_start
from hetopt.solvers.simulated.ledger import SimulatedLedger
from hetopt.solvers.simulated.race import SimulatedRace
from hetopt.solvers.simulated.worker import SimulatedSpec, make

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from hetopt.base.deadline import Deadline
    from hetopt.plans.plan import Plan
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.results.result import Result, Time
    from hetopt.solvers.race.messages import Found
    from hetopt.solvers.request import Request

#: Share of the time limit for finding the plan of least closed form, and the seconds
#: it gets at least.
_START_SHARE, _START_S = 0.25, 2.0
#: Share that it gets if it is still farther than this from its bound: then its plans
#: improve more than those of simulated times would.
_LONG_SHARE, _WIDE_GAP = 0.6, 0.1
#: Share of the limit for bounds within a known time, before a plan is looked for.
_OUTLINE_SHARE = 0.5
#: Seconds after which this is looked at if there is no time limit, as a proof of the
#: closed form may take minutes where that of simulated times takes seconds.
_ROUND_S = 10.0
#: Schedules whose best plan a search with free warm-up counts starts from: the first
#: that has one. The second needs less memory.
_STARTS: tuple[ScheduleName, ...] = ("virtual-1f1b", "1f1b")
#: Seconds that proving that plan may take if there is no time limit.
_PATIENCE_S = 10.0
#: Why a proof ended.
ENDED = (
    "which stops proving a simulated time after %g s: set a time limit for a longer "
    "proof, or minimise the closed form"
)
#: CPU seconds this process searches before it starts others.
_ALONE_S = 0.75


def solve_simulated(
    request: Request,
    *,
    solver: str,
    patience_s: float | None = None,
    objective: Time = "simulated",
) -> Result:
    """Find the plan of least simulated time and prove that there is none quicker.

    Parameters
    ----------
    solver
        Finds the plan of least closed form, to start from.
    objective
        Of several chunks a stage the closed form is a matter of paths, too: then that
        is minimised.
    patience_s
        Seconds for the proof after the start if there is no time limit; None: no limit.

    """
    limit_s = request.deadline.limit_s
    if request.params.principles.relaxed:
        msg = "simulated times are not searched: a principle is relaxed"
        raise InputError(f"{msg}; minimise the closed form", field="objective")
    most = cutoff_of(request.cutoff_s)
    ledger = _ledger(request, most, objective)
    if ledger.is_started:
        stopped = _race(ledger, request, most)
        return replace(_answer(ledger, request, solver, most), interrupted=stopped)
    if most < NO_CUTOFF and not request.deadline.is_over():
        until = request.deadline.within(limit_s and _OUTLINE_SHARE * limit_s)
        part = replace(request, deadline=until)
        stopped = _race(ledger, part, most, started=False)
        if stopped or not ledger.open() or request.deadline.is_over():
            return replace(_answer(ledger, request, solver, most), interrupted=stopped)
    started = _from_closed_form(request, solver)
    if started.status == "infeasible":
        return replace(started, objective=objective, solver=solver)
    if limit_s is None and patience_s is not None:
        request = replace(request, deadline=request.deadline.until(patience_s))
    ledger.is_started = started.status == "optimal"
    ledger.limit, stopped = NO_CUTOFF, started.interrupted
    before = dict(ledger.plans)
    try:
        _take_start(ledger, started, None if stopped else request.deadline)
        if not stopped:
            improve_start(ledger, request)
        _tell(ledger, request, before)
        stopped = stopped or _race(ledger, request, most)
    except KeyboardInterrupt:
        stopped = True
        _take_start(ledger, started, None)
    result = replace(_answer(ledger, request, solver, most), interrupted=stopped)
    patient = limit_s is None and patience_s is not None
    if patient and not stopped and result.status != "optimal":
        return replace(result, choice=ENDED % patience_s)
    return result


def _ledger(request: Request, most: int, objective: Time) -> SimulatedLedger:
    """Return the ledger of an earlier search of the same table, or a new one."""
    memory = {} if request.memory is None else request.memory
    kept: SimulatedLedger | None = memory.get("simulated")
    known = kept is not None and kept.table is request.table
    if kept is not None and known and kept.is_started and most <= kept.most:
        kept.reopen(min(kept.first, most))
        # What this limit refutes may be within a larger one.
        kept.most = most
        return kept
    ledger = SimulatedLedger(
        request.problem,
        request.table,
        top=request.params.top,
        limit=NO_CUTOFF,
        objective=objective,
    )
    if kept is not None and known:
        # Without a proven start, or within a larger limit, only bounds hold.
        ledger.take_bounds(kept)
    ledger.most, memory["simulated"] = most, ledger
    return ledger


def _from_closed_form(request: Request, solver: str) -> Result:
    """Return the plan of least closed form, or the best that is found in its time."""
    told = without_times(request.params.on_progress)
    params = replace(request.params, top=1, on_progress=told)
    # What the first solver knows of the race is kept, so that it may go on.
    memory = {} if request.memory is None else request.memory
    own = replace(request, params=params, cutoff_s=None, memory=memory)
    bound_s = None
    for seconds in _rounds(request.deadline):
        part = request.deadline.within(seconds)
        started = _started(replace(own, deadline=part), solver)
        is_open = "unsettled" in started.settled and not started.interrupted
        # Where boundaries share links, a gap remains that no search closes.
        same = bound_s is not None and started.lower_bound_s == bound_s
        near = started.gap is not None and started.gap <= _WIDE_GAP
        if not is_open or same or near:
            break
        bound_s = started.lower_bound_s
    return started


def _rounds(deadline: Deadline) -> Iterator[float]:
    """Yield seconds for the first solver, as long as it is far from its bound."""
    if deadline.limit_s is None:
        # Doubled, as a program that is interrupted is begun again.
        yield from (_ROUND_S * 2**n for n in count())
        return
    yield max(_START_S, deadline.limit_s * _START_SHARE)
    more_s = deadline.limit_s * _LONG_SHARE - deadline.elapsed_s()
    if more_s > 0:
        yield more_s


def _started(request: Request, solver: str) -> Result:
    """Return the result that the search starts from, with what it proves for that."""
    problem, table = request.problem, request.table
    if not rule_of(table.schedule).free:
        return load(solver)(request)
    for schedule in _STARTS:
        other = problem.of_plan(schedule)
        digest = problem_digest(other)
        own = replace(table, schedule=schedule, problem_digest=digest)
        started = solve_simulated(
            replace(request, problem=other, table=own, memory=None),
            solver=solver,
            patience_s=_PATIENCE_S,
        )
        if started.status != "infeasible":
            break
    # If none of them has a plan, there may still be one with fewer warm-ups.
    return replace(started, status="unknown", settlements=(), lower_bound_s=None)


def search_within(request: Request, limit_s: float) -> Result:
    """Find the plan of least simulated time, given that one takes at most ``limit_s``.

    Nothing is known of the closed form, so the search is longer than it has to be.
    """
    limit, top = cutoff_of(limit_s), request.params.top
    ledger = SimulatedLedger(request.problem, request.table, top=top, limit=NO_CUTOFF)
    ledger.first = limit
    _race(ledger, request, limit)
    return _answer(ledger, request, "auto", limit)


def _race(
    ledger: SimulatedLedger, request: Request, most: int, *, started: bool = True
) -> bool:
    """Search from the first limit up to ``most``; return whether Ctrl-C ended it.

    Parameters
    ----------
    started
        Whether the first limit is known; if not, ``most`` is, and the programs are
        bounded only.
    """
    params = request.params
    payload = SimulatedSpec(
        problem=request.problem,
        table=request.table,
        top=params.top,
        objective=ledger.objective,
    )
    pool = open_pool(params, make, payload, growing=True, alone_s=_ALONE_S)
    loop = SimulatedRace(ledger, pool, request)
    try:
        with suppress(Stopped):
            if started:
                loop.run(most)
            else:
                loop.outline(most)
    except KeyboardInterrupt:
        return True
    finally:
        pool.close()
    return False


def _answer(
    ledger: SimulatedLedger, request: Request, solver: str, most: int
) -> Result:
    """Return the result, of plans that take at most ``most``."""
    if ledger.limit < min(most, INFINITE) and not ledger.has_enough:
        ledger.doubt()
    ledger.limit = most
    ledger.plans = {
        shape: found for shape, found in ledger.plans.items() if found.value <= most
    }
    return result_of(
        ledger,
        request.problem,
        request.table,
        solver=solver,
        principles=PRUNED,
        search_time_s=request.deadline.elapsed_s(),
        objective=ledger.objective,
    )


def _take_start(
    ledger: SimulatedLedger, started: Result, deadline: Deadline | None
) -> None:
    """Record the result for the closed form, and with it the first limit of the race.

    Parameters
    ----------
    deadline
        For finding the best warm-up counts of its plan; None to keep the plan's own.
    """
    for settlement in started.settlements:
        if settlement.how == "infeasible":
            program = ledger.programs[settlement.stages, settlement.microbatches]
            program.how = "infeasible"
    for priced in started.plans:
        ledger.find(_start(ledger, priced.plan, deadline))
    if ledger.plans:
        ledger.first = ledger.ranked()[-1].value
    elif started.lower_bound_s is not None:
        ledger.first = ceil(started.lower_bound_s / TICK_S * PERIOD_SCALE)


def _tell(
    ledger: SimulatedLedger, request: Request, before: Mapping[Any, Found]
) -> None:
    """Report the plans that the search starts from, and put them in the journal.

    Parameters
    ----------
    before
        Plans that were known before, which the journal has.
    """
    told, journal = request.params.on_progress, request.journal
    if journal is not None:
        journal.found_since(before, ledger)
    if told is not None:
        told(ledger.progress(request.deadline.elapsed_s()))


def _start(ledger: SimulatedLedger, plan: Plan, deadline: Deadline | None) -> Found:
    """Simulate a plan, with the best warm-up counts unless the time is up before."""
    if deadline is not None:
        with suppress(Stopped):
            return run_until(deadline, lambda: ledger.start(plan))
    return ledger.as_planned(plan)
