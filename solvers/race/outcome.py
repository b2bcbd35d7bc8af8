"""Make the reported result from the ledger of a race."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.check import check_plan
from hetopt.cost.table_file.file import table_digest
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.result import Result
from hetopt.results.settlement import Settlement
from hetopt.solvers.decisions.assembly import plan_of
from hetopt.solvers.race.diagnosis import why_infeasible
from hetopt.solvers.race.merging import with_plans
from hetopt.solvers.race.messages import NO_CUTOFF

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles
    from hetopt.results.result import Objective, Status
    from hetopt.solvers.race.ledger import Ledger, Program


def result_of(
    ledger: Ledger,
    problem: Problem,
    table: CostTable,
    *,
    solver: str,
    principles: Principles,
    search_time_s: float,
    objective: Objective = "closed",
) -> Result:
    """Check, price and sum up what a race found.

    Parameters
    ----------
    objective
        Which time of a plan the ledger minimises.

    Raises
    ------
    CheckError
        If a plan of the solver fails the check.
    """
    plans = [
        _priced(found.decision, problem, table, principles) for found in ledger.ranked()
    ]
    settlements = tuple(_settlements(ledger))
    bounds = [each.bound_s for each in settlements if each.bound_s is not None]
    status = _status(ledger)
    without = Result(
        status=status,
        objective=objective,
        solver=solver,
        relaxed=principles.relaxed,
        best=None,
        lower_bound_s=min(bounds, default=None),
        gap=None,
        search_time_s=search_time_s,
        settlements=settlements,
        tokens_per_s=None,
        mfu=None,
        mfu_used=None,
        table_kinds=dict(zip(table.cluster_names, table.sources, strict=True)),
        reason=_reason(ledger, problem, table, status, principles),
    )
    return with_plans(without, plans, table) if plans else without


def _status(ledger: Ledger) -> Status:
    """Return the status without a plan."""
    if all(program.how == "infeasible" for program in ledger.programs.values()):
        return "infeasible"
    return "unknown"


def _reason(
    ledger: Ledger,
    problem: Problem,
    table: CostTable,
    status: Status,
    principles: Principles,
) -> str:
    """Return why there is no plan."""
    if status == "infeasible":
        return why_infeasible(problem, table, principles)
    if ledger.limit != NO_CUTOFF and ledger.is_settled:
        return "no plan is within the cutoff"
    return "stopped before a plan was found"


def _priced(
    decision: Decision,
    problem: Problem,
    table: CostTable,
    principles: Principles,
) -> PricedPlan:
    plan = plan_of(decision, table, table_digest(table))
    checked = check_plan(problem, table, plan, principles)
    return PricedPlan.of(plan, checked)


def _settlements(ledger: Ledger) -> Iterator[Settlement]:
    """Yield how every program was settled.

    Once all are, only what the cutoff shows is claimed: how far above it a bound is,
    and which worse plans are known, depends on the order in which plans were found.
    """
    known, cutoff = list(ledger.programs.values()), ledger.cutoff
    if ledger.is_settled:
        known = [_within(program, cutoff) for program in known]
    for program in known:
        how = program.how or "unsettled"
        yield Settlement(
            stages=program.stages,
            microbatches=program.microbatches,
            how=how,
            bound_s=None if how == "infeasible" else ledger.seconds(program),
        )


def _within(program: Program, cutoff: int) -> Program:
    """Return what is known of a settled program's plans within the cutoff."""
    if program.how == "infeasible" or program.bound <= cutoff:
        return program
    how = "refuted-by-search" if program.how == "solved" else program.how
    return replace(program, bound=cutoff, how=how)
