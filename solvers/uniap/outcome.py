"""Make the reported plan and result from the choice of a UniAP search."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hetopt.check import check_plan
from hetopt.cost.per_unit.layer_costs import rows_of, unit_costs
from hetopt.cost.table.ticks import LONGEST_NS, LONGEST_S, TICK_S
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import SolverError
from hetopt.formulations.uniap.choice import lower_bound_ns
from hetopt.formulations.uniap.programs import uniap_pairs
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.pricing.units import crossing
from hetopt.problem.training.choices import RESHARDING
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.result import Result
from hetopt.results.settlement import Settlement
from hetopt.solvers.race.merging import with_plans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.uniap.choice import UniapChoice, UniapProgram
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Status
    from hetopt.solvers.uniap.search import UniapResult


def plan_of(program: UniapProgram, choice: UniapChoice, table: CostTable) -> Plan:
    """Return a choice as a plan, which lists the strategy of every unit."""
    costs = unit_costs(table)
    part = costs.at(program.microbatches)
    rows = part.clusters[0]
    offered = rows_of(table, program.stages, program.microbatches)
    chosen = [offered[k] for k in choice.strategy]
    layouts = rows.layout[chosen].tolist()
    stages = []
    end = 0
    for i in range(program.stages):
        first, end = end, end + choice.stage.count(i)
        strategies = tuple(rows.strategies[row] for row in chosen[first:end])
        edge = crossing(costs, end)
        resharding = None
        if edge is not None:
            u, v, tensor = edge
            resharding = RESHARDING[
                int(part.resharding[tensor, layouts[u], layouts[v]])
            ]
        stages.append(
            Stage(
                cluster=table.cluster_names[0],
                first_unit=first,
                end_unit=end,
                # The most frequent one; the first of several.
                strategy=Counter(strategies).most_common(1)[0][0],
                # GPipe: all forward passes first.
                warmup=program.microbatches,
                resharding=resharding,
                unit_strategies=strategies,
            )
        )
    return Plan(
        schedule=table.schedule,
        pipelines=(Pipeline(microbatches=program.microbatches, stages=tuple(stages)),),
        problem_digest=table.problem_digest,
        table_digest=table_digest(table),
    )


def result_of(
    found: UniapResult,
    programs: Sequence[UniapProgram],
    problem: Problem,
    table: CostTable,
    *,
    cut_off: bool,
) -> Result:
    """Check, price and sum up what a search found.

    Parameters
    ----------
    programs
        The programs that were searched.
    cut_off
        Whether the request has a cutoff.

    Raises
    ------
    CheckError, SolverError
        If the plan fails the check, or its value differs from that of the search.
    """
    best = None
    if found.program is not None and found.choice is not None:
        best = _priced(
            found, plan_of(found.program, found.choice, table), problem, table
        )
    settlements = tuple(_settlements(found, problem))
    bound_ns = found.lower_bound_ns
    nothing = all(item.how == "infeasible" for item in settlements)
    status: Status = "infeasible" if nothing else "unknown"
    without = Result(
        status=status,
        objective="uniap",
        solver="uniap",
        best=None,
        lower_bound_s=None if bound_ns is None else bound_ns * TICK_S,
        gap=None,
        search_time_s=found.search_time_s,
        interrupted=found.interrupted,
        settlements=settlements,
        tokens_per_s=None,
        mfu=None,
        mfu_used=None,
        table_kinds=dict(zip(table.cluster_names, table.sources, strict=True)),
        reason=_reason(status, found, programs, problem, table, cut_off=cut_off),
    )
    return without if best is None else with_plans(without, [best], table)


def _priced(
    found: UniapResult, plan: Plan, problem: Problem, table: CostTable
) -> PricedPlan:
    checked = check_plan(problem, table, plan)
    value = None if found.value_ns is None else found.value_ns * TICK_S
    if (
        value is None
        or checked.uniap_s is None
        or abs(value - checked.uniap_s) > TICK_S
    ):
        msg = f"the search says {value} s, the plan takes {checked.uniap_s} s"
        raise SolverError(msg)
    return PricedPlan(
        plan=plan,
        closed_form_s=checked.closed_form_s,
        iteration_time_s=checked.iteration_time_s,
        objective_s=checked.uniap_s,
    )


def _settlements(found: UniapResult, problem: Problem) -> Iterator[Settlement]:
    """Yield the settlement of every pair; one without a program is infeasible."""
    searched = {(item.stages, item.microbatches): item for item in found.settlements}
    for pair in uniap_pairs(problem):
        item = searched.get(pair)
        how = "infeasible" if item is None else item.how
        bound = (
            None if item is None or item.bound_ns is None else item.bound_ns * TICK_S
        )
        yield Settlement(
            stages=pair[0],
            microbatches=pair[1],
            how=how,
            bound_s=None if how == "infeasible" else bound,
        )


def _reason(
    status: Status,
    found: UniapResult,
    programs: Sequence[UniapProgram],
    problem: Problem,
    table: CostTable,
    *,
    cut_off: bool,
) -> str:
    """Say in one line why there is no plan."""
    if status == "unknown":
        if cut_off and all(item.how != "unsettled" for item in found.settlements):
            return "no plan is within the cutoff"
        return "stopped before a plan was found"
    if not programs:
        return (
            "no permitted (dp, tp) that uses all devices of a stage has room for one "
            f"layer of {problem.model.name} on {table.cluster_names[0]}"
        )
    least = [lower_bound_ns(program) for program in programs]
    if any(bound is not None for bound in least) and all(
        bound is None or bound > LONGEST_NS for bound in least
    ):
        return f"time: every plan takes more than {LONGEST_S} s per iteration"
    need, left = min(
        (
            (
                -(-sum(min(layer.memory_bytes) for layer in graph.layers) // p),
                graph.memory_bytes,
            )
            for p, graph in ((program.stages, program.graph) for program in programs)
        ),
        key=lambda pair: pair[0] / pair[1],
    )
    if need <= left:
        return (
            "memory: the layers fit in total, but no number of stages divides them "
            "into stages that all fit; smaller micro-batches or recomputation would "
            "help"
        )
    return (
        f"memory: the layers need at least {need / 1e9:.1f} GB on every device, "
        f"{left / 1e9:.1f} GB of {table.usable_bytes[0] / 1e9:.1f} GB usable are left "
        "beside buffers and temporaries; more devices or recomputation would help"
    )
