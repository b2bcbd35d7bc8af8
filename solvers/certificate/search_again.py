"""Search the programs that a certificate says were searched, with another engine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from importlib import import_module
from threading import Event
from typing import TYPE_CHECKING

from hetopt.base.deadline import Interrupted, Stopped
from hetopt.base.run_until import run_in_time
from hetopt.check import check_plan
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import CheckError
from hetopt.formulations.ceiling import objective_ceiling, within
from hetopt.formulations.chain import Chain
from hetopt.formulations.program import ProgramData
from hetopt.formulations.scale import LONGEST, PERIOD_SCALE
from hetopt.formulations.space import undominated
from hetopt.problem.training.pins import Domain
from hetopt.problem.training.principles import PRUNED
from hetopt.results.certificate import PS_S
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.bounds.wide import CLOSE, bounds_s
from hetopt.solvers.decisions.assembly import plan_of
from hetopt.solvers.decisions.pricer import Pricer
from hetopt.solvers.params import RaceParams
from hetopt.solvers.race.engine import EngineRun
from hetopt.solvers.race.first_plan import first_plan
from hetopt.solvers.registry import SOLVERS
from hetopt.solvers.request import Request
from hetopt.solvers.simulated.search import SimulatedSearch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hetopt.base.deadline import Deadline
    from hetopt.check.verify.findings import Doubt
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles
    from hetopt.results.result import Objective
    from hetopt.solvers.race.engine import Answer, Engine

#: Relative rounding error of a time in seconds.
_ROUNDING = 1e-9
#: Least seconds that an engine gets for a program, even after the deadline.
_LEAST_S = 0.1
#: Widths of ranges in which bounds are derived again, one after the other.
_SHARES = (CLOSE, CLOSE / 4, CLOSE / 16, CLOSE / 64)
#: Seconds between two checks for signals.
_TURN_S = 0.1
#: Engines, best first; the one that made the certificate is skipped.
_ENGINES = (
    ("cp-sat", "hetopt.solvers.cp_sat:CpSatEngine"),
    ("dp", "hetopt.solvers.dp.solver:DpEngine"),
    ("miqp-highs", "hetopt.solvers.mip.miqp:MiqpHighsEngine"),
)


def second_engine(
    solver: str, seed: int, principles: Principles = PRUNED
) -> tuple[str, Engine]:
    """Return an engine, and its name, that is not the solver's own."""
    name, path = next(
        pair
        for pair in _ENGINES
        if pair[0] != solver and (not principles.relaxed or SOLVERS[pair[0]].relaxes)
    )
    module, _, attribute = path.partition(":")
    return name, getattr(import_module(module), attribute)(seed)


def refuted_at_once(
    problem: Problem, table: CostTable, doubt: Doubt, simulated: bool = False
) -> bool:
    """Whether a plan found without a search is better than the claimed bound.

    That is enough to refute a claim far from the truth; False proves nothing.
    """
    if table.layout is not None:
        return False
    only = replace(
        problem.pins,
        stages=Domain(allowed=frozenset({doubt.stages})),
        microbatches=Domain(allowed=frozenset({doubt.microbatches})),
    )
    found = first_plan(replace(problem, pins=only), table)
    if found is None:
        return False
    plan = plan_of(found.decision, table, table_digest(table))
    try:
        checked = check_plan(problem, table, plan)
    except CheckError:
        return False
    value_s = checked.iteration_time_s if simulated else checked.closed_form_s
    value_ps = value_s / PS_S
    return doubt.bound_ps is None or value_ps * (1 + _ROUNDING) < doubt.bound_ps


def resolve(
    problem: Problem,
    table: CostTable,
    doubts: Iterable[Doubt],
    engine: Engine,
    *,
    deadline: Deadline,
    principles: Principles = PRUNED,
) -> Iterator[tuple[Doubt, str | None]]:
    """Search each program again below its bound; yield what is wrong, or None.

    No bound of a relaxation is used: the engine gets the whole program.

    Parameters
    ----------
    deadline
        For all programs together; those not settled by then are not confirmed.
    principles
        Principles that plans have to keep.
    """
    chain = Chain.of(table)
    for doubt in doubts:
        part = undominated(table, table.at(doubt.microbatches), chain, principles)
        cutoff = objective_ceiling(part, chain, doubt.stages)
        if doubt.bound_ps is not None:
            cutoff = min(cutoff, doubt.bound_ps - 1)
        data = replace(
            ProgramData.of(
                table,
                within(part, cutoff),
                chain,
                problem.rules,
                stages=doubt.stages,
                cutoff=cutoff,
            ),
            principles=principles,
        )
        answer = _settled(engine, data, deadline.within(least_s=_LEAST_S))
        yield doubt, _finding(doubt, answer.verdict)


def _settled(engine: Engine, data: ProgramData, deadline: Deadline) -> Answer:
    """Let an engine settle a program in another thread, while this one gets signals.

    In this thread a call of a library would delay signals until it returns.
    """
    stop = Event()
    with ThreadPoolExecutor(1) as executor:
        how = EngineRun(stop=stop.is_set, deadline=deadline)
        settled = executor.submit(engine.settle, data, how)
        try:
            while not settled.done():
                wait([settled], _TURN_S)
        finally:
            stop.set()
        return settled.result()


def resolve_simulated(
    problem: Problem,
    table: CostTable,
    doubts: Iterable[Doubt],
    *,
    deadline: Deadline,
    objective: Objective = "simulated",
) -> Iterator[tuple[Doubt, str | None]]:
    """Do the same as ``resolve`` for bounds that paths support.

    There is only one search for those: it searches the whole program again, without
    bounds of the race. Another engine checks claims that there is no plan, unless
    warm-up counts are free.
    """
    free = rule_of(table.schedule).free
    for doubt in doubts:
        if doubt.bound_ps is None and not free:
            _, engine = second_engine("", 0)
            yield from resolve(problem, table, [doubt], engine, deadline=deadline)
            continue
        verdict = _search_simulated(problem, table, doubt, deadline, objective)
        yield doubt, _finding(doubt, verdict)


def resolve_relaxed(
    problem: Problem,
    table: CostTable,
    doubts: Iterable[Doubt],
    *,
    deadline: Deadline,
    principles: Principles,
) -> Iterator[tuple[Doubt, str | None]]:
    """Do the same if plans need not keep all principles.

    No search has such plans: the bounds are derived as the race derives them. The race
    cuts ranges in other places, as it knows another plan: where a bound does not follow
    at first, they are cut finer.
    """
    params = RaceParams(principles=principles)
    request = Request(problem=problem, table=table, params=params)
    for doubt in doubts:
        assert doubt.bound_ps is not None
        bound_s, found_s = doubt.bound_ps * PS_S, 0.0
        one = doubt.microbatches, [doubt.stages], bound_s
        try:
            for share in _SHARES:
                work = partial(bounds_s, request, *one, share)
                (found_s,) = run_in_time(deadline, work)
                if found_s >= bound_s * (1 - _ROUNDING):
                    break
        except Stopped:
            yield doubt, unsettled(doubt)
            continue
        if found_s < bound_s * (1 - _ROUNDING):
            program = f"({doubt.stages}, {doubt.microbatches})"
            yield (
                doubt,
                f"{program}: no bound of {doubt.bound_ps} ps follows",
            )
        else:
            yield doubt, None


def _search_simulated(
    problem: Problem,
    table: CostTable,
    doubt: Doubt,
    deadline: Deadline,
    objective: Objective,
) -> str:
    data = ProgramData.of(
        table,
        table.at(doubt.microbatches),
        Chain.of(table),
        problem.rules,
        stages=doubt.stages,
        cutoff=0,
    )
    # Simulated times are whole ns: the longest that is shorter than the bound.
    bound = LONGEST if doubt.bound_ps is None else doubt.bound_ps
    limit = -(-bound // PERIOD_SCALE) - 1
    found: list[int] = []
    search = SimulatedSearch(
        data,
        # One quicker plan is enough.
        limit=lambda: -1 if found else limit,
        found=lambda decision, value: found.append(value),
        simulate=Pricer(problem, table).time_of(objective),
        # Keep all strategies, including those that the race left out.
        useful=lambda part: part,
        deadline=deadline,
    )
    try:
        search.run()
    except Interrupted:
        return "optimal" if found else "stopped"
    return "optimal" if found else "infeasible"


def _finding(doubt: Doubt, verdict: str) -> str | None:
    if verdict not in ("infeasible", "optimal"):
        return unsettled(doubt)
    return None if verdict == "infeasible" else better(doubt)


def better(doubt: Doubt) -> str:
    """Return the finding for a claim that a plan refutes."""
    program = f"({doubt.stages}, {doubt.microbatches})"
    if doubt.bound_ps is None:
        return f"{program} is claimed to be infeasible, but has a plan"
    return f"{program} has a plan below the claimed bound of {doubt.bound_ps} ps"


def unsettled(doubt: Doubt, others: int = 0) -> str:
    """Return the finding for a claim, and others, not confirmed within the time."""
    more = f" and {others} more" if others else ""
    return (
        f"({doubt.stages}, {doubt.microbatches}){more} could not be settled again "
        "within the time limit: give it more with --time-limit"
    )
