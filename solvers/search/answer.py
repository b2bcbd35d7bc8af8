"""The reported result of a search that branched, or its front."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from hetopt.base.words import counted
from hetopt.results.front import Front, FrontPoint
from hetopt.results.money import cost_of, known_cost
from hetopt.results.result import Result
from hetopt.results.settlement import OPTIMALITY_GAP
from hetopt.results.spending import cost_of_time
from hetopt.solvers.race.merging import is_confirmed, with_plans
from hetopt.solvers.registry import relaxed_by
from hetopt.solvers.search.branchings.fleets import Fleets
from hetopt.solvers.search.branchings.runnable import Runnable, merged

if TYPE_CHECKING:
    from hetopt.errors import InputError
    from hetopt.results.result import Objective, Status
    from hetopt.results.settlement import Settlement
    from hetopt.solvers.request import Request
    from hetopt.solvers.search.node import Found, Node
    from hetopt.solvers.search.over import Over


class Searched(Protocol):
    """What an answer is made of: see ``hetopt.solvers.search.search.TreeSearch``."""

    request: Request
    over: Over
    solver: str
    objective: Objective
    proves: bool
    root: Node

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped it."""
        ...

    @property
    def is_refuted(self) -> bool:
        """Whether no plan is of interest."""
        ...

    @property
    def failure(self) -> InputError | None:
        """Why the solver cannot search the first leaf that it cannot, if any."""
        ...

    def schedule_of_best(self) -> Node | None:
        """Return the node of the best plan's schedule; without a plan, of the first."""
        ...


def result_of(search: Searched) -> Result:
    """Return the result for the best plans of a search."""
    root, request = search.root, search.request
    best = root.best[0] if root.best else None
    costs = search.over.measure == "cost"
    proves = search.proves
    problem = search.request.problem if best is None else best.space.whole.problem
    table = request.table if best is None else best.space.whole.table
    bound, possible = root.bound, not math.isinf(root.bound)
    own = _result_of_best(search)
    found = Result(
        status="unknown" if possible else "infeasible",
        objective="cost" if costs else search.objective,
        solver=search.solver if own is None else own.solver,
        best=None,
        lower_bound_s=bound if possible and proves and not costs else None,
        gap=None,
        search_time_s=request.deadline.elapsed_s(),
        settlements=_settlements(search),
        tokens_per_s=None,
        mfu=None,
        mfu_used=None,
        table_kinds=dict(zip(table.cluster_names, table.sources, strict=True)),
        relaxed=relaxed_by(search.solver, request.params.principles),
        choice=None if own is None else own.choice,
        reason=_reason(search, possible=possible),
        interrupted=search.interrupted,
        over=search.over.to_json(),
        claims=root.claim(),
        problem=problem,
        table=table,
    )
    if best is None:
        return found
    plans = [each.priced for each in root.best]
    found = with_plans(found, plans, table)
    one = plans[0]
    found = replace(found, cost=cost_of(problem, one.plan, one.iteration_time_s))
    if not costs:
        return found
    bound = min(bound, best.value)
    gap = (best.value - bound) / best.value if best.value else 0.0
    status: Status = "optimal" if gap <= OPTIMALITY_GAP else "feasible"
    return replace(found, status=status, gap=gap, lower_cost=cost_of_time(1.0, bound))


def front_of(search: Searched) -> Front:
    """Return the plans that no other beats in both time and price."""
    root, request = search.root, search.request
    assert isinstance(root, Fleets)
    points = tuple(_point(each, search) for each in root.best)
    open_ = root.undecided()
    first = next((each.result for each in root.searched() if each.result), None)
    mixed = search.over.lengths
    relaxed = relaxed_by(search.solver, request.params.principles)
    confirmed = is_confirmed(search.objective, mixed=mixed, relaxed=relaxed)
    status: Status = "infeasible"
    if open_ or points:
        status = "feasible" if open_ or not confirmed else "optimal"
    return Front(
        status=status,
        objective="simulated" if search.objective == "simulated" else "closed",
        solver=search.solver if first is None else first.solver,
        points=points,
        search_time_s=request.deadline.elapsed_s(),
        open=open_,
        relaxed=relaxed,
        over=search.over.to_json(),
        claims=root.claim() or {},
        reason="" if points else _reason(search, possible=bool(open_)),
        interrupted=search.interrupted,
    )


def _point(found: Found, search: Searched) -> FrontPoint:
    priced = found.priced
    return FrontPoint(
        best=priced,
        cost=known_cost(search.request.problem, priced.plan, priced.iteration_time_s),
        tokens_per_s=search.request.table.tokens / priced.iteration_time_s,
    )


def _result_of_best(search: Searched) -> Result | None:
    """Return the result of the search that found the best plan, or of the last one."""
    last = None
    best = {id(each.priced) for each in search.root.best[:1]}
    for leaf in search.root.searched():
        last = leaf.result
        if best & {id(each.priced) for each in leaf.best}:
            break
    return last


def _settlements(search: Searched) -> tuple[Settlement, ...]:
    """Return those of the reported plan's problem, if it has all nodes."""
    if search.over.spending is not None or search.over.divides:
        return ()
    node: Node | None = search.root
    if search.over.schedules:
        node = search.schedule_of_best()
    if isinstance(node, Runnable):
        return merged(node)
    result = getattr(node, "result", None)
    return () if result is None else result.settlements


def _reason(search: Searched, *, possible: bool) -> str:
    """Return why there is no plan."""
    over = search.over
    reasons = [each.result.reason for each in search.root.searched() if each.result]
    if possible and search.is_refuted:
        return "no plan is within the cutoff"
    if possible:
        waits = over.spending is not None or over.divides
        known = None if waits else next((each for each in reasons if each), None)
        if known is None and search.failure is not None:
            return f"not every problem can be searched: {search.failure.message}"
        return known or search.request.without_plan(interrupted=search.interrupted)
    limits = []
    if over.spending is not None and over.spending.budget is not None:
        limits.append(f"costs at most {over.spending.budget:g} an hour")
    if over.spending is not None and over.spending.min_tokens_per_s is not None:
        limits.append(f"trains {over.spending.min_tokens_per_s:g} tokens/s or more")
    if limits:
        # What some of the nodes lack has nothing to do with prices.
        found = (each.result for each in search.root.searched() if each.result)
        lacking = (each.reason for each in found if each.status == "infeasible")
        known = next((each for each in lacking if each), None)
        nothing = f"no plan {' and '.join(limits)}"
        return nothing if known is None else f"{nothing}: {known}"
    if over.spending is not None:
        return "no plan fits any nodes"
    if over.divides:
        most = counted(over.pipelines, "pipeline")
        return f"no plan of up to {most} fits the devices"
    if over.launcher is None:
        return next((each for each in reasons if each), "no plan fits the devices")
    # Spaces that are left without strategies say nothing of memory.
    able = (each for each in search.root.searched() if each.space.table.slices)
    told = (each.result.reason for each in able if each.result)
    first = next((each for each in told if each), "")
    nothing = "nothing the launcher can run fits"
    return f"{nothing}: {first}" if first else f"{nothing} the devices and pins"
