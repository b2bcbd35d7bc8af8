"""Searches below a time that another problem's plan takes, again and again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hetopt.base.deadline import Deadline
from hetopt.planning.solving import solve_for
from hetopt.results.settlement import OPTIMALITY_GAP
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.agreement.generator import in_simulated_time, make
from tests.oracle import brute_force

if TYPE_CHECKING:
    from typing import Any

    from hetopt.results.result import Result
    from tests.oracle.brute_force import Answer

#: Shares of the best plan's time, in the order in which they are cutoffs.
SHARES = (1.5, 1.05, 1.0, 0.995, 0.7, 0.9, 1.02)
TICK_S = 1e-9


@pytest.mark.parametrize("seed", range(45))
def test_below_a_cutoff(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(45, 300))
def test_below_a_cutoff_of_more(seed: int) -> None:
    check(seed)


def check(seed: int) -> None:
    """Compare searches of an instance, of which each remembers the one before."""
    features = in_simulated_time(seed)
    if features.relaxed or features.lengths:
        return
    instance = make(features)
    problem, table = instance.problem, instance.table
    answer = brute_force.solve(problem, table, simulated=True)
    best = answer.best
    least_s = 1.0
    if best is not None:
        assert best.simulated_ns is not None
        least_s = best.simulated_ns * TICK_S
    asked = Request(
        problem=problem,
        table=table,
        params=RaceParams(jobs=0, top=features.top),
        deadline=Deadline.after(None),
    )
    solve = solve_for("dp", "simulated")
    memories: tuple[dict[str, Any] | None, ...] = {}, {}, None
    for number, memory in enumerate(memories):
        request = replace(asked, memory=memory)
        if number:
            # Some without much time, as a first plan of many problems is looked for.
            for seconds in (0.0, 0.02, 0.1):
                solve(replace(request, deadline=Deadline.after(seconds)))
        for share in SHARES:
            # Seconds are cut to whole nanoseconds.
            cutoff_s = share * least_s + TICK_S / 2
            result = solve(replace(request, cutoff_s=cutoff_s))
            if best is None:
                assert result.best is None
                continue
            _compare(result, answer, cutoff_s, features.top)
            if share >= 1:
                assert result.best is not None
                assert result.best.iteration_time_s == pytest.approx(least_s, rel=1e-12)


def _compare(result: Result, answer: Answer, cutoff_s: float, top: int) -> None:
    """Check that plans are those within the cutoff, and bounds of what is not found."""
    times = [
        found.simulated_ns * TICK_S
        for found in answer.shapes
        if found.simulated_ns is not None
    ]
    within = [each for each in times if each <= cutoff_s * (1 + OPTIMALITY_GAP)]
    plans = [] if result.best is None else [result.best, *result.alternatives]
    found = [each.iteration_time_s for each in plans]
    assert found == pytest.approx(within[: min(top, len(found))], rel=1e-12)
    assert len(found) >= min(top, sum(each <= cutoff_s for each in times))
    least = min(times)
    assert result.lower_bound_s is None or result.lower_bound_s <= max(
        least, cutoff_s
    ) * (1 + 1e-9)
    for each in result.settlements:
        own = answer.programs.get((each.stages, each.microbatches))
        if own is None or own.simulated_ns is None:
            continue
        assert each.how != "infeasible"
        assert each.bound_s is not None
        own_s = own.simulated_ns * TICK_S
        assert each.bound_s <= max(own_s, cutoff_s + TICK_S) * (1 + 1e-9)
