"""The race over (p, q): bound all, sketch a few plans, settle the rest, prove.

1. Every q is surveyed: a valid lower bound for each of its p.
2. The relaxed optima with the least bounds are turned into plans: a first cutoff.
3. Every q that may hold something better is surveyed again, closely.
4. What the bounds leave is settled by the engine, best bound first. Every better
   plan becomes the cutoff of all programs, running ones too.
5. Among the programs that tie, the tie rule picks the plan that is reported.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.check import check_plan
from hetopt.cost.table import TICK_S
from hetopt.cost.table_file import table_digest
from hetopt.errors import SolverError
from hetopt.formulations.chain import Chain
from hetopt.formulations.program import PERIOD_SCALE
from hetopt.result import OPTIMALITY_GAP, PricedPlan, Result, Settlement
from hetopt.solvers.assembly import bound_seconds, plan_of
from hetopt.solvers.diagnosis import why_infeasible
from hetopt.solvers.pool import Died, Done, Failed, InlinePool, Note, Pool
from hetopt.solvers.progress import Progress
from hetopt.solvers.worker import (
    NO_CUTOFF,
    Found,
    Payload,
    SettleTask,
    SketchTask,
    SurveyTask,
    TieTask,
    Verdict,
    make,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hetopt.cost.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.problem.problem import Problem
    from hetopt.result import How, Status
    from hetopt.solvers.bounds import Survey

#: Relaxed optima that are turned into plans, and how many of one q.
_SKETCHES, _SKETCHES_PER_Q = 8, 3
#: A program is given up after killing this many workers.
_MOST_DEATHS = 3
#: Seconds between two looks at the clock.
_TURN_S = 0.1


def race(
    problem: Problem,
    table: CostTable,
    *,
    solver: str,
    engine: str,
    jobs: int | None,
    top: int,
    time_limit_s: float | None,
    seed: int,
    cutoff: float | None,
    on_progress: Callable[[Progress], None] | None,
) -> Result:
    """Find the best plan over all (p, q) and settle every one of them.

    Parameters
    ----------
    engine
        ``module:attribute`` of what makes the engine in every worker.
    jobs
        Worker processes; None for one per core, 0 to work in this process.
    cutoff
        Seconds; plans above it are of no interest.
    """
    run = _Race(
        problem=problem,
        table=table,
        solver=solver,
        payload=Payload(
            problem=problem, table=table, engine=engine, seed=seed, top=top
        ),
        time_limit_s=time_limit_s,
        on_progress=on_progress,
    )
    if cutoff is not None:
        run.limit = int(cutoff / TICK_S * PERIOD_SCALE)
    return run.run(jobs)


@dataclass(slots=True)
class _Program:
    """What is known of one (p, q); ``bound`` in 1 / PERIOD_SCALE ticks."""

    stages: int
    microbatches: int
    bound: int = 0
    period: float = np.inf
    how: How | None = None


class _Stopped(Exception):
    """The clock ran out."""


@dataclass(kw_only=True)
class _Race:
    problem: Problem
    table: CostTable
    solver: str
    payload: Payload
    time_limit_s: float | None
    on_progress: Callable[[Progress], None] | None
    limit: int = NO_CUTOFF
    programs: dict[tuple[int, int], _Program] = field(default_factory=dict)
    best: dict[tuple[object, ...], Found] = field(default_factory=dict)
    deaths: Counter[Any] = field(default_factory=Counter)

    def run(self, jobs: int | None) -> Result:
        self.began = time.monotonic()
        self._list_programs()
        open_ = any(program.how is None for program in self.programs.values())
        if open_:
            if jobs is None:
                jobs = len(os.sched_getaffinity(0))
            self.pool: Pool | InlinePool = (
                Pool(jobs, make, self.payload)
                if jobs
                else InlinePool(make, self.payload)
            )
            try:
                self.pool.shared.value = self.limit
                self._phases()
            except (_Stopped, KeyboardInterrupt):
                # Whatever is known by now is the answer.
                pass
            finally:
                self.pool.close()
        return self._result()

    # ------------------------------------------------------------- programs

    def _list_programs(self) -> None:
        length = Chain.of(self.table).length
        known = {part.microbatches for part in self.table.slices}
        for q in self.problem.microbatch_counts:
            for p in self.problem.stage_counts:
                program = _Program(stages=p, microbatches=q)
                if q not in known or p > length:
                    program.how = "infeasible"
                self.programs[p, q] = program

    def _open(self) -> list[_Program]:
        return [program for program in self.programs.values() if program.how is None]

    def _phases(self) -> None:
        self._survey(None)
        self._sketch()
        if self._cutoff() != NO_CUTOFF:
            self._survey(self._cutoff())
        self._settle()
        self._break_ties()

    def _survey(self, cutoff: int | None) -> None:
        counts = sorted({program.microbatches for program in self._open()})
        tasks = [SurveyTask(microbatches=q, cutoff=cutoff) for q in counts]

        def take(task: SurveyTask, found: Survey) -> None:
            for program in self._open():
                if program.microbatches != task.microbatches:
                    continue
                bound = float(found.bound[program.stages])
                if not np.isfinite(bound):
                    program.how = "infeasible"
                    continue
                program.bound = max(program.bound, _ticks_below(bound))
                program.period = float(found.period[program.stages])
            self._refute()

        self._perform(iter(tasks), take)

    def _sketch(self) -> None:
        per_q: Counter[int] = Counter()
        tasks = []
        for program in sorted(self._open(), key=_by_bound):
            if per_q[program.microbatches] < _SKETCHES_PER_Q:
                per_q[program.microbatches] += 1
                tasks.append(
                    SketchTask(
                        microbatches=program.microbatches,
                        stages=program.stages,
                        period=program.period,
                    )
                )
        self._perform(iter(tasks[:_SKETCHES]), lambda task, found: None)
        self._refute()

    def _settle(self) -> None:
        def tasks() -> Iterable[SettleTask]:
            started = set()
            while True:
                waiting = [
                    program
                    for program in self._open()
                    if (program.stages, program.microbatches) not in started
                ]
                if not waiting:
                    return
                program = min(waiting, key=_by_bound)
                started.add((program.stages, program.microbatches))
                yield SettleTask(
                    microbatches=program.microbatches,
                    stages=program.stages,
                    time_limit_s=self._left(),
                )

        def take(task: SettleTask, found: Verdict) -> None:
            program = self.programs[task.stages, task.microbatches]
            program.bound = max(program.bound, found.bound)
            program.how = self._how(program, found)
            self._refute()

        self._perform(iter(tasks()), take)

    def _how(self, program: _Program, verdict: Verdict) -> How:
        if not verdict.closed:
            return "unsettled"
        if verdict.bound <= self._cutoff() and self._holds(program):
            return "solved"
        if self._cutoff() == NO_CUTOFF:
            return "infeasible"
        return "refuted-by-search" if verdict.searched else "refuted-by-bound"

    def _holds(self, program: _Program) -> bool:
        """Whether a plan of this program reaches the program's bound."""
        return any(
            _belongs(found, program) and found.value <= program.bound
            for found in self.best.values()
        )

    def _refute(self) -> None:
        cutoff = self._cutoff()
        for program in self._open():
            if program.bound > cutoff:
                program.how = "refuted-by-bound"

    def _break_ties(self) -> None:
        """Let every program that ties with the last plan wanted name its first ones.

        Which of several equally good plans a search meets first is chance; which
        ones the tie rule names is not.
        """
        if not self.best or any(
            program.how == "unsettled" for program in self.programs.values()
        ):
            return
        worst = self._ranked()[-1].value
        tasks = []
        for program in self.programs.values():
            values = {
                found.value
                for found in self.best.values()
                if _belongs(found, program) and found.value <= worst
            }
            if values:
                tasks.append(
                    TieTask(
                        microbatches=program.microbatches,
                        stages=program.stages,
                        values=tuple(sorted(values)),
                    )
                )
        named: list[Found] = []
        self._perform(iter(tasks), lambda task, found: named.extend(found), ends=False)
        self.best = {found.decision.shape: found for found in named}

    # ---------------------------------------------------------------- tasks

    def _perform(
        self,
        tasks: Any,
        take: Callable[[Any, Any], None],
        *,
        ends: bool = True,
    ) -> None:
        """Keep all workers busy until the tasks are done or the clock runs out."""
        running: dict[int, Any] = {}
        again: list[Any] = []
        number = 0
        exhausted = False
        while True:
            while self.pool.idle and not exhausted:
                task = again.pop() if again else next(tasks, None)
                if task is None:
                    exhausted = not again
                    break
                number += 1
                running[number] = task
                self.pool.submit(number, task)
            if not running:
                return
            for event in self.pool.collect(_TURN_S):
                task = running[event.task]
                match event:
                    case Note():
                        self._found(event.content)
                        continue
                    case Done():
                        take(task, event.value)
                    case Failed():
                        raise SolverError(f"{task} failed:\n{event.trace}")
                    case Died():
                        self.deaths[task] += 1
                        if self.deaths[task] < _MOST_DEATHS:
                            again.append(task)
                        elif isinstance(task, SettleTask):
                            program = self.programs[task.stages, task.microbatches]
                            program.how = "unsettled"
                        exhausted = False
                del running[event.task]
                exhausted = False
            self._tell()
            left = self._left()
            if ends and left is not None and left <= 0:
                raise _Stopped

    def _left(self) -> float | None:
        if self.time_limit_s is None:
            return None
        return self.time_limit_s - (time.monotonic() - self.began)

    # ------------------------------------------------------------ incumbent

    def _cutoff(self) -> int:
        return int(self.pool.shared.value)

    def _found(self, found: Found) -> None:
        """Take in a plan; the cutoff is the value of the last plan wanted."""
        if found.value > self.limit:
            return
        known = self.best.get(found.decision.shape)
        if known is not None and known.value <= found.value:
            return
        self.best[found.decision.shape] = found
        ranked = sorted(other.value for other in self.best.values())
        if len(ranked) >= self.payload.top:
            self.pool.shared.value = min(self._cutoff(), ranked[self.payload.top - 1])

    def _ranked(self) -> list[Found]:
        def rank(found: Found) -> tuple[object, ...]:
            return (
                found.value,
                *found.decision.tie_key(self.table),
            )

        return sorted(self.best.values(), key=rank)[: self.payload.top]

    def _bound_s(self) -> float | None:
        bounds = [
            bound_seconds(program.bound, program.microbatches)
            for program in self.programs.values()
            if program.how != "infeasible"
        ]
        return max(0.0, min(bounds)) if bounds else None

    def _tell(self) -> None:
        if self.on_progress is None:
            return
        ranked = self._ranked()
        incumbent = ranked[0].value / PERIOD_SCALE * TICK_S if ranked else None
        bound = self._bound_s()
        if incumbent is not None and bound is not None:
            bound = min(bound, incumbent)
        self.on_progress(
            Progress(
                elapsed_s=time.monotonic() - self.began,
                incumbent_s=incumbent,
                bound_s=bound,
                gap=None
                if incumbent is None or bound is None
                else (incumbent - bound) / incumbent,
                settled=len(self.programs) - len(self._open()),
                programs=len(self.programs),
            )
        )

    # --------------------------------------------------------------- result

    def _result(self) -> Result:
        digest = table_digest(self.table)
        plans = [self._priced(found.decision, digest) for found in self._ranked()]
        best = plans[0] if plans else None
        bound = self._bound_s()
        gap = None
        if best is not None and bound is not None:
            bound = min(bound, best.closed_form_s)
            gap = (best.closed_form_s - bound) / best.closed_form_s
        status = self._status(gap)
        return Result(
            status=status,
            solver=self.solver,
            best=best,
            alternatives=tuple(plans[1:]),
            lower_bound_s=bound,
            gap=gap,
            search_time_s=time.monotonic() - self.began,
            settlements=tuple(self._settlements()),
            tokens_per_s=self.table.tokens / best.iteration_time_s if best else None,
            mfu=self._mfu(best, self.table.cluster_devices) if best else None,
            mfu_used=self._mfu(best, self._devices_used(best)) if best else None,
            table_kinds=dict(
                zip(self.table.cluster_names, self.table.sources, strict=True)
            ),
            reason=self._reason(status),
        )

    def _status(self, gap: float | None) -> Status:
        if self.best:
            return (
                "optimal" if gap is not None and gap <= OPTIMALITY_GAP else "feasible"
            )
        if all(program.how == "infeasible" for program in self.programs.values()):
            return "infeasible"
        return "unknown"

    def _reason(self, status: Status) -> str | None:
        if status == "infeasible":
            return why_infeasible(self.problem, self.table)
        if status == "unknown" and self.limit != NO_CUTOFF and not self._open():
            return "no plan is within the cutoff"
        if status == "unknown":
            return "stopped before a plan was found"
        return None

    def _priced(self, decision: Decision, digest: str) -> PricedPlan:
        plan = plan_of(decision, self.table, digest)
        checked = check_plan(self.problem, self.table, plan)
        return PricedPlan(
            plan=plan,
            closed_form_s=checked.closed_form_s,
            iteration_time_s=checked.iteration_time_s,
        )

    def _settlements(self) -> Iterable[Settlement]:
        for program in self.programs.values():
            how = program.how or "unsettled"
            yield Settlement(
                stages=program.stages,
                microbatches=program.microbatches,
                how=how,
                bound_s=None
                if how == "infeasible"
                else max(0.0, bound_seconds(program.bound, program.microbatches)),
            )

    def _devices_used(self, best: PricedPlan) -> list[int]:
        used = Counter[str]()
        for stage in best.plan.pipeline.stages:
            used[stage.cluster] += stage.strategy.devices
        return [used[name] for name in self.table.cluster_names]

    def _mfu(self, best: PricedPlan, devices: Iterable[int]) -> float:
        peak = sum(
            count * rate
            for count, rate in zip(devices, self.table.peak_flops, strict=True)
        )
        return self.table.model_flops / (best.iteration_time_s * peak)


def _belongs(found: Found, program: _Program) -> bool:
    decision = found.decision
    return (decision.stages, decision.microbatches) == (
        program.stages,
        program.microbatches,
    )


def _by_bound(program: _Program) -> tuple[int, int, int]:
    return (program.bound, program.stages, program.microbatches)


def _ticks_below(time_ns: float) -> int:
    """Return a whole objective no larger than a bound found in floating point."""
    return max(0, int(time_ns * PERIOD_SCALE) - 1)
