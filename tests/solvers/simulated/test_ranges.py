"""Ranges of lambda_0 (``h-1f1b``) against brute force, links from quick to slow."""

from __future__ import annotations

import pytest

from hetopt.base.deadline import Deadline
from hetopt.formulations.chain import Chain
from hetopt.formulations.program import ProgramData
from hetopt.solvers.arrays.windows import INFINITE
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.solvers.simulated.search import SimulatedSearch
from hetopt.solvers.simulated.solver import solve_simulated
from hetopt.solvers.simulated.view import Range, View
from tests.oracle import brute_force
from tests.oracle.instances import make_slow

_TICK_S = 1e-9


@pytest.mark.parametrize("seed", range(48))
def test_the_best_plan_is_in_some_range(seed: int) -> None:
    instance = make_slow(seed)
    problem, table = instance.problem, instance.table
    best = brute_force.solve(problem, table, simulated=True).best
    request = Request(
        problem=problem,
        table=table,
        params=RaceParams(jobs=0),
        deadline=Deadline.after(None),
    )
    result = solve_simulated(request, solver="dp")
    if best is None:
        assert result.status == "infeasible"
        return
    assert result.best is not None
    assert result.best.plan == brute_force.to_plan(problem, table, best)
    assert best.simulated_ns is not None
    assert result.lower_bound_s == pytest.approx(best.simulated_ns * _TICK_S, rel=1e-12)


def times_within(data: ProgramData, limit: int) -> set[int]:
    """Return the simulated times of all plans within the limit."""
    found: set[int] = set()
    SimulatedSearch(
        data,
        limit=lambda: limit,
        found=lambda decision, value: found.add(value),
        simulate=lambda decision, limit: 0,
        useful=lambda part: part,
        deadline=Deadline.after(None),
    ).run()
    return found


@pytest.mark.quick_seeds(2)
@pytest.mark.parametrize("seed", range(3, 48, 4))
def test_no_plan_within_the_limit_is_missed(seed: int) -> None:
    """All of a program are found, whatever range their lambda_0 is in."""
    instance = make_slow(seed)
    problem, table = instance.problem, instance.table
    programs = brute_force.solve(problem, table, simulated=True).programs
    for (p, q), best in programs.items():
        assert best.simulated_ns is not None
        data = ProgramData.of(
            table, table.at(q), Chain.of(table), problem.pins, stages=p, cutoff=0
        )
        assert times_within(data, best.simulated_ns - 1) == set()
        assert times_within(data, best.simulated_ns) == {best.simulated_ns}


def test_a_range_is_of_what_plans_can_have() -> None:
    """It is never above what a stage or a link can take within the limit."""
    instance = make_slow(1)
    part = instance.table.slices[-1]
    data = ProgramData.of(
        instance.table,
        part,
        Chain.of(instance.table),
        instance.problem.pins,
        stages=3,
        cutoff=0,
    )
    limit = 10**9
    view = View(data, limit)
    assert view.possible
    within = view.within
    kappa = int(part.transfer_ns.max())
    assert 0 < within.floor <= within.ceiling
    assert within.ceiling <= max(limit // part.microbatches, kappa)
    assert view.over(Range(0, INFINITE)).within == Range(0, INFINITE)
    assert view.within == within
