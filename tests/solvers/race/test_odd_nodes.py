"""Exact solvers against brute force where nodes are odd, or unequal."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hetopt.base.deadline import Deadline
from hetopt.check import check_result
from hetopt.errors import InputError
from hetopt.problem.training.principles import Principles
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.oracle import brute_force
from tests.oracle.odd import make_odd
from tests.solvers.race.agreeing import ensure_best

TICK = Fraction(1, 10**9)
SOLVERS = ("dp", "cp-sat", "milp")
#: Instances; every fifth has the same schedule.
SEEDS = range(100)
#: One with stages of sizes that do not divide each other.
UNLIKE = 4
SPACES = tuple(
    Principles.relaxing(names)
    for names in (["p4"], ["p4-falling-tp"], ["p3"], ["p3", "p4"])
)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_all_agree_with_brute_force(solver: str, seed: int) -> None:
    ensure_best(solver, make_odd(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 240))
@pytest.mark.parametrize("solver", ["dp", "miqp-highs"])
def test_stages_of_several_sizes_are_packed(solver: str, seed: int) -> None:
    instance = make_odd(seed, widest=True)
    problem, table = instance.problem, instance.table
    space = SPACES[seed % len(SPACES)]
    best = brute_force.solve(problem, table, space).best
    result = load(solver)(
        Request(
            problem=problem,
            table=table,
            params=RaceParams(jobs=0, principles=space),
            deadline=Deadline.after(300),
        )
    )
    assert check_result(problem, table, result.to_json()) == []
    if best is None:
        assert result.status == "infeasible"
        return
    assert result.status == "optimal"
    assert result.best is not None
    q = result.best.plan.pipeline.microbatches
    slack = float(max(q, best.shape[1]) * TICK)
    exact = float(best.closed_form_ns * TICK)
    assert result.best.closed_form_s == pytest.approx(exact, rel=1e-12, abs=slack)


def test_sizes_that_do_not_divide_each_other_are_refused_without_p4() -> None:
    instance = make_odd(UNLIKE)
    request = Request(
        problem=instance.problem,
        table=instance.table,
        params=RaceParams(jobs=0, principles=SPACES[0]),
    )
    with pytest.raises(InputError, match="each size has to divide the next") as caught:
        load("dp")(request)
    assert caught.value.field == "--relax"
