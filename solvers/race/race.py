"""The race over (p, q): bound all, find a few plans, settle the rest, prove.

1. Every q is bounded as a whole by boxes of lambda and g, and a local search over
   orders of the clusters finds first plans. Where such bounds do not apply, the first
   plan is one of a single strategy. Where the passes that stages hold depend on p,
   these plans are improved by random changes. The best plan is the cutoff.
2. Every q is surveyed, which bounds each of its p; more closely if there is a cutoff.
3. If step 1 had no such bounds or found no plan, the relaxed optima with the least
   bounds are turned into plans. A lower cutoff leads to another survey.
4. The engine settles the programs that the bounds leave open, best bound first. Every
   better plan becomes the cutoff of all programs, including those that are running.
5. Among plans that tie, the tie rule picks those that are reported.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.base.deadline import Stopped
from hetopt.formulations.chain import Chain
from hetopt.formulations.scale import scaled_below, ticks_above
from hetopt.problem.training.principles import PRUNED
from hetopt.solvers.pools.opening import open_pool, worker_count
from hetopt.solvers.race.first_plan import ensure_plan, first_plan
from hetopt.solvers.race.improving import (
    deadline_of_proof,
    improve_early,
    improve_last,
    improves,
)
from hetopt.solvers.race.ledger import WIDER, Ledger, Program
from hetopt.solvers.race.messages import (
    NO_CUTOFF,
    Found,
    Payload,
    RelaxedPlanTask,
    SettleTask,
    SurveyTask,
    TieTask,
    cutoff_of,
)
from hetopt.solvers.race.outcome import result_of
from hetopt.solvers.race.q_order import QOrder
from hetopt.solvers.race.task_loop import TaskLoop
from hetopt.solvers.race.worker import make

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hetopt.results.result import Result
    from hetopt.solvers.bounds.by_count import Survey
    from hetopt.solvers.request import Request

#: Share of a time limit that the pruned space may take before a wider one.
_PRUNED_SHARE = 0.25
#: Relaxed optima that are turned into plans, and how many of one q.
_RELAXED_PLANS, _RELAXED_PLANS_PER_Q = 8, 3
#: Programs that are bounded again, and turned into plans, where plans depend on p.
_PLANS_BY_COUNT = 24
#: Seconds for the tie rule if the time is up.
_TIES_S = 1.0


def race(request: Request, *, solver: str, engine: str, quick: bool = False) -> Result:
    """Find the best plan over all (p, q) and settle every one of them.

    Parameters
    ----------
    engine
        ``module:attribute`` of the callable that makes the engine in every worker. The
        engine must support the principles of the request.
    quick
        Whether the engine is usually so quick that starting workers does not pay.

    Raises
    ------
    InputError
        A line of the journal is wrong.
    """
    problem, table, params = request.problem, request.table, request.params
    ledger = _ledger(request)
    interrupted = False
    # A search that is late from the start would be interrupted anywhere. One that was
    # killed may have settled all but its ties.
    resumed = request.journal is not None
    if (ledger.open() or resumed) and not request.deadline.is_over():
        early = replace(request, deadline=deadline_of_proof(request))
        interrupted = _run(early, ledger, engine=engine, quick=quick)
    if request.deadline.limit_s is not None and not interrupted:
        before = dict(ledger.plans)
        ensure_plan(ledger, problem)
        improve_last(request, ledger)
        if request.journal is not None:
            request.journal.found_since(before, ledger)
    result = result_of(
        ledger,
        problem,
        table,
        solver=solver,
        principles=params.principles,
        search_time_s=request.deadline.elapsed_s(),
    )
    return replace(result, interrupted=interrupted)


def _ledger(request: Request) -> Ledger:
    """Return the ledger of an earlier search of the same table, or a new one."""
    limit, memory = cutoff_of(request.cutoff_s), request.memory
    kept: Ledger | None = None if memory is None else memory.get("race")
    if kept is not None and kept.table is request.table and limit <= kept.limit:
        kept.reopen(limit)
        return kept
    ledger = Ledger(request.problem, request.table, top=request.params.top, limit=limit)
    if request.journal is not None:
        request.journal.resume(ledger, request)
    if memory is not None:
        memory["race"] = ledger
        wider = (memory.get(WIDER) or {}).get("race")
        if wider is not None and not request.params.principles.relaxed:
            ledger.bound_by(wider)
    return ledger


def _run(request: Request, ledger: Ledger, *, engine: str, quick: bool) -> bool:
    """Race until all is settled or time is up; return whether the user interrupted."""
    table, params = request.table, request.params
    known: list[Found] = []
    if params.principles.relaxed and quick:
        interrupted, known = _pruned(request, engine)
        if interrupted:
            for found in known:
                ledger.find(found)
            return True
    # Boxes support neither several kinds of units nor relaxed principles.
    whole_q = not params.principles.relaxed and Chain.of(table).is_uniform
    payload = Payload(
        problem=request.problem,
        table=table,
        engine=engine,
        seed=request.seed,
        top=params.top,
        workers=worker_count(params.jobs) * params.beside,
        principles=params.principles,
        whole_q=whole_q,
    )
    strategies = sum(part.strategy_count for part in table.slices)
    pool = open_pool(params, make, payload, growing=quick, strategies=strategies)
    loop = _Race(ledger, pool, request)
    # When the time is up or the user interrupts, the best plan so far is the answer.
    try:
        with suppress(Stopped):
            loop.run(known, whole_q=whole_q)
    except KeyboardInterrupt:
        return True
    finally:
        pool.close()
    return False


def _pruned(request: Request, engine: str) -> tuple[bool, list[Found]]:
    """Search the pruned space, whose plans all belong to the wider spaces too.

    Returns whether the user interrupted, and the best plan, if there is one.
    """
    limit_s = request.deadline.limit_s
    part = replace(
        request,
        params=replace(request.params, principles=PRUNED, top=1),
        journal=None,
        deadline=request.deadline.within(limit_s and limit_s * _PRUNED_SHARE),
    )
    ledger = Ledger(part.problem, part.table, top=1, limit=cutoff_of(request.cutoff_s))
    interrupted = _run(part, ledger, engine=engine, quick=True)
    return interrupted, ledger.ranked()


class _Race(TaskLoop):
    """One run of the race: its phases and their tasks."""

    def run(self, known: Iterable[Found], *, whole_q: bool) -> None:
        """Settle every (p, q).

        Parameters
        ----------
        known
            Plans to start from.
        whole_q
            Whether to bound every q as a whole first.
        """
        for found in known:
            self.find(found)
        ahead = improves(self.request)
        limited = ahead and self.ledger.limit != NO_CUTOFF
        # Plans are not worth looking for if the limit refutes all of them.
        cutoff = NO_CUTOFF
        if limited:
            cutoff = self._bound(whole_q=whole_q, plans=False)
        if not self.ledger.plans and (ahead or not whole_q) and self.ledger.open():
            self._plan_first()
        if ahead:
            self._plan_by_count(surveyed=limited)
        if not limited or self.ledger.cutoff < cutoff:
            cutoff = self._bound(whole_q=whole_q)
        if not ahead and (not whole_q or cutoff == NO_CUTOFF):
            self._plan_relaxed()
            if self.ledger.cutoff < cutoff:
                self._survey(self.ledger.cutoff)
        self._settle()
        self._break_ties()

    # ---------------------------------------------------------------- phases

    def _bound(self, *, whole_q: bool, plans: bool = True) -> int:
        """Bound every q, then every program; return the cutoff for these.

        Parameters
        ----------
        plans
            Whether to look for plans, too.
        """
        if whole_q:
            order = QOrder(self.ledger, plans=plans)
            self.perform(order.tasks(), order.take)
        cutoff = self.ledger.cutoff
        self._survey(None if cutoff == NO_CUTOFF else cutoff)
        return cutoff

    def _plan_first(self) -> None:
        """Find a plan of one strategy."""
        first = first_plan(self.request.problem, self.ledger.table)
        self.ledger.looked_at_once = True
        if first is not None:
            self.find(first)

    def _plan_by_count(self, *, surveyed: bool) -> None:
        """Look for plans where what stages hold depends on p, as bounds on a q do not.

        Plans of one q are too many to bound all its p closely before one is known: the
        p with the least bounds are bounded again, with what their stages hold.
        """
        if not surveyed:
            self._survey(None)
        done: set[tuple[int, int]] = set()

        def tasks() -> Iterator[RelaxedPlanTask]:
            while len(done) < _PLANS_BY_COUNT:
                waiting = [
                    program
                    for program in self.ledger.open()
                    if (program.stages, program.microbatches) not in done
                ]
                if not waiting:
                    return
                program = min(waiting, key=lambda program: program.rank)
                done.add((program.stages, program.microbatches))
                yield program.relaxed_plan

        def take(task: RelaxedPlanTask, bound: float) -> None:
            program = self.ledger.programs[task.stages, task.microbatches]
            if not np.isfinite(bound):
                program.how = "infeasible"
                return
            program.bound = max(program.bound, scaled_below(bound))
            self.ledger.refute()

        self.perform(tasks(), take)
        if self.ledger.open():
            found = improve_early(self.request, self.ledger)
            if found is not None:
                self.find(found)
            self.ledger.refute()

    def _survey(self, cutoff: int | None) -> None:
        """Bound every open program, q by q."""

        def take(task: SurveyTask, found: Survey) -> None:
            for program in self.ledger.open():
                if program.microbatches != task.microbatches:
                    continue
                bound = float(found.bound[program.stages])
                if not np.isfinite(bound):
                    program.how = "infeasible"
                    continue
                below = scaled_below(bound)
                if cutoff is not None and bound > ticks_above(cutoff):
                    below = cutoff + 1
                program.bound = max(program.bound, below)
                program.period = float(found.period[program.stages])
            self.ledger.refute()

        counts = sorted({program.microbatches for program in self.ledger.open()})
        tasks = [SurveyTask(microbatches=q, cutoff=cutoff) for q in counts]
        self.perform(iter(tasks), take)

    def _plan_relaxed(self) -> None:
        """Turn the most promising relaxed optima into plans."""
        per_q: Counter[int] = Counter()
        tasks = []
        for program in sorted(self.ledger.open(), key=lambda program: program.rank):
            if per_q[program.microbatches] < _RELAXED_PLANS_PER_Q:
                per_q[program.microbatches] += 1
                tasks.append(program.relaxed_plan)
        self.perform(iter(tasks[:_RELAXED_PLANS]), lambda task, found: None)
        self.ledger.refute()

    def _settle(self) -> None:
        """Settle the programs that the bounds leave open, best bound first."""

        def task_of(program: Program) -> SettleTask:
            return SettleTask(
                microbatches=program.microbatches,
                stages=program.stages,
                time_limit_s=self.allowance(),
                start=self.ledger.best_of(program),
            )

        self.best_first(task_of, self.ledger.settle)

    def _break_ties(self) -> None:
        """Replace the plans by those that the tie rule puts first in their programs.

        Which of several equally good plans a search finds first is chance; the order
        of the tie rule is not. This mostly takes no longer than the last proofs did, so
        it has a second even if the time is up.
        """
        ledger = self.ledger
        if not ledger.plans or any(
            program.how == "unsettled" for program in ledger.programs.values()
        ):
            return
        worst = ledger.ranked()[-1].value
        tasks = []
        for program in ledger.programs.values():
            values = {
                found.value
                for found in ledger.plans.values()
                if program.holds(found) and found.value <= worst
            }
            if values:
                tasks.append(
                    TieTask(
                        microbatches=program.microbatches,
                        stages=program.stages,
                        values=tuple(sorted(values)),
                    )
                )
        left_s = self.deadline.left_s()
        if left_s is not None:
            share_s = max(left_s, _TIES_S) / max(len(tasks), 1)
            tasks = [replace(each, time_limit_s=share_s) for each in tasks]
        named: list[Found] = []
        self.perform(iter(tasks), lambda task, found: named.extend(found), timed=False)
        # Where the tie rule was not applied for want of memory, plans stay as found.
        known = {(*_program_of(found), found.value) for found in named}
        kept = [
            found
            for found in ledger.plans.values()
            if (*_program_of(found), found.value) not in known
        ]
        ledger.plans = {found.decision.shape: found for found in (*kept, *named)}

    def give_up(self, task: Any) -> None:
        """Mark a program whose workers keep dying as unsettled, never as infeasible."""
        if isinstance(task, SettleTask):
            program = self.ledger.programs[task.stages, task.microbatches]
            program.how = "unsettled"


def _program_of(found: Found) -> tuple[int, int]:
    decision = found.decision
    return decision.stages, decision.microbatches
