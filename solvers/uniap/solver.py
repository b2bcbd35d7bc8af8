"""The ``uniap`` solver: one strategy per layer on one homogeneous cluster (UniAP).

It minimises UniAP's objective for GPipe, sum p + sum o + (c - 1) max(p, o), over every
(pp_size, c) whose stages share all devices equally. The plan is reported with that
value and both times of MODEL.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.table.ticks import TICK_S
from hetopt.errors import InputError
from hetopt.formulations.uniap.programs import uniap_programs
from hetopt.solvers.refusals import ensure_can, ensure_plans
from hetopt.solvers.uniap.outcome import result_of
from hetopt.solvers.uniap.search import UniapParams, solve_programs

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result
    from hetopt.solvers.params import RaceParams
    from hetopt.solvers.request import Request


def solve(request: Request) -> Result:
    """Find a plan of least UniAP objective and prove that there is no better one.

    The cutoff applies to UniAP's objective. ``UniapParams`` has the options of this
    solver alone; ``jobs`` has no effect.

    Raises
    ------
    InputError
        UniAP does not support the problem, its schedule or a pin.
    """
    problem, table, params = request.problem, request.table, request.params
    ensure_can("uniap", params.principles)
    ensure_plans("uniap", problem.training.schedule)
    _ensure_planned(problem, params)
    programs = uniap_programs(problem, table)
    own = params
    if not isinstance(own, UniapParams):
        own = UniapParams(on_progress=params.on_progress)
    cutoff_s = request.cutoff_s
    found = solve_programs(
        programs,
        own,
        deadline=request.deadline,
        seed=request.seed,
        cutoff_ns=None if cutoff_s is None else int(cutoff_s / TICK_S),
    )
    return result_of(found, programs, problem, table, cut_off=cutoff_s is not None)


def _ensure_planned(problem: Problem, params: RaceParams) -> None:
    """Raise InputError for options and pins that the programs do not support."""
    if params.top > 1:
        msg = f"is {params.top}, but uniap reports one plan"
        raise InputError(msg, field="--top")
    pins = problem.pins
    if pins.units is not None:
        msg = (
            "uniap decides how many units each stage has: leave this out, or use cp-sat"
        )
        raise InputError(msg, field="pin.units")
    # Several clusters are refused when the table is built.
    (name, *_) = [cluster.name for cluster in problem.clusters]
    own = pins.of(name)
    for field, permitted in (
        ("cp", own.cp.permits(1)),
        ("units", own.units.permits(len(problem.model.units))),
    ):
        if not permitted:
            msg = (
                "leaves no plan: uniap uses cp 1 and puts all units on its only cluster"
            )
            raise InputError(msg, field=f"pin.clusters.{name}.{field}")
