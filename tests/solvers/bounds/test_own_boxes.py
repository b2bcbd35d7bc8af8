"""No plan costs less than the bounds on its own period and strategies.

That is more than that bounds are true of the best plan: a bound that is too high for
some plan may be found out by none of the searches that use it.
"""

from __future__ import annotations

from functools import cache
from itertools import islice
from math import inf

import numpy as np
import pytest

from hetopt.formulations.chain import Chain
from hetopt.formulations.restricting import restrict
from hetopt.pricing.price import pipeline_times
from hetopt.problem.training.choices import SCHEDULES, ScheduleName
from hetopt.schedule.period import period_by_recursion
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.bounds.boxes import Box, BoxBounds
from hetopt.solvers.bounds.relaxation import Relaxation
from hetopt.solvers.dp.solver import solve
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.oracle import brute_force
from tests.oracle.brute_force import Found
from tests.oracle.instances import Instance, make_apart

#: Schedules with a period, whose warm-up counts follow from the plan.
KINDS = [
    name for name in SCHEDULES if not (rule_of(name).all_first or rule_of(name).free)
]
#: Those whose stages hand on before they are done.
EARLY = [name for name in KINDS if rule_of(name).splits]
#: Plans of an instance that are looked at, the best of their shapes.
_PLANS = 100
#: Times in floating point are off by less than this share of them.
_NEAR = 1e-9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_no_plan_is_better_than_its_own_bounds(seed: int, kind: ScheduleName) -> None:
    _ensure_true(make_apart(seed, kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6, 106))
def test_no_more_plans_are_better(seed: int, kind: ScheduleName) -> None:
    _ensure_true(make_apart(seed, kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(100))
def test_the_best_plan_is_found(seed: int, kind: ScheduleName) -> None:
    instance = make_apart(seed, kind)
    problem, table = instance.problem, instance.table
    best = brute_force.solve(problem, table, estimated=True).best
    found = solve(Request(problem=problem, table=table, params=RaceParams(jobs=0)))
    if rule_of(kind).interleaved and best is not None:
        # What its program minimises is not the closed form.
        assert "unsettled" not in found.settled
    else:
        assert found.status == ("infeasible" if best is None else "optimal")
    if best is not None and found.best is not None:
        assert found.best.plan == brute_force.to_plan(problem, table, best)


@pytest.mark.parametrize("kind", EARLY)
def test_most_drawn_plans_have_several_clusters(kind: ScheduleName) -> None:
    found = [
        len(plan.shape[2]) > 1
        for seed in range(6)
        for plan in _answered(make_apart(seed, kind))
    ]
    assert sum(found) > 100


def _answered(instance: Instance) -> list[Found]:
    answer = brute_force.solve(instance.problem, instance.table, estimated=True)
    return list(islice(answer.shapes, _PLANS))


def _ensure_true(instance: Instance) -> None:
    """Fail if a bound on one period and the strategies of a plan exceeds the plan."""
    problem, table = instance.problem, instance.table
    chain = Chain.of(table)
    most = max(p for p in problem.stage_counts if p <= chain.length)

    @cache
    def boxes(q: int) -> BoxBounds:
        return BoxBounds(
            table=table,
            part=table.at(q),
            chain=chain,
            pins=problem.rules,
            most_stages=most,
        )

    for found in _answered(instance):
        p, q, order, strategies, _ = found.shape
        plan = brute_force.to_plan(problem, table, found)
        part, value = table.at(q), float(found.closed_form_ns) * (1 + _NEAR)
        period = float(period_by_recursion(pipeline_times(plan, table)))
        low, high = (period * (1 - _NEAR), period * (1 + _NEAR))
        own = sorted(zip(order, strategies, strict=True))
        relaxation = Relaxation(
            table=table,
            part=restrict(
                part,
                [
                    np.array([k for j, k in own if j == i], dtype=np.int64)
                    for i in range(len(part.clusters))
                ],
            ),
            chain=chain,
            pins=problem.rules,
            most_stages=most,
        )
        fill, _ = relaxation.option_fill(high, p)
        assert fill + (part.passes - 1) * low + relaxation.least_sync <= value
        if not chain.is_uniform:
            # As in the race, which bounds no boxes then.
            continue
        box = boxes(q).bounded(
            Box(
                bound=0.0,
                low=low,
                high=high if part.passes > 1 else inf,
                least_sync=0.0,
                most_sync=value,
                alive=np.array([boxes(q).names.index(each) for each in own]),
            ),
            inf,
        )
        assert box is not None
        assert box.bound <= value
