"""A plan that holds, and what the checker says once it is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetopt.check import check_plan
from hetopt.errors import CheckError
from hetopt.plans.plan import Stage
from hetopt.plans.strategy import Strategy
from tests.oracle import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem

WIDE = Strategy(dp=2, cp=1, tp=2)
NARROW = Strategy(dp=2, cp=1, tp=1)


def stage(
    cluster: str,
    first: int,
    end: int,
    strategy: Strategy,
    warmup: int,
    *,
    last: bool = False,
) -> Stage:
    return Stage(
        cluster=cluster,
        first_unit=first,
        end_unit=end,
        strategy=strategy,
        warmup=warmup,
        resharding=None if last else "p2p",
    )


#: Two stages on a, one on b; virtual-1f1b warms up 4, 3, 1.
STAGES = (
    stage("a", 0, 3, WIDE, 4),
    stage("a", 3, 6, WIDE, 3),
    stage("b", 6, 8, NARROW, 1, last=True),
)


def findings(
    stages: Sequence[Stage] = STAGES,
    *,
    microbatches: int = 2,
    strategies: Sequence[Strategy] = (WIDE, NARROW),
    changes: Mapping[str, Any] | None = None,
    **problem_changes: Any,
) -> list[str]:
    problem = plain.problem(**problem_changes)
    table = plain.table(problem, strategies, **(changes or {}))
    plan = plain.plan(problem, table, stages, microbatches=microbatches)
    return findings_of(problem, table, plan)


def findings_of(problem: Problem, table: CostTable, plan: Plan) -> list[str]:
    try:
        check_plan(problem, table, plan)
    except CheckError as error:
        return error.findings
    return []


def one(stages: Sequence[Stage], index: int, **changes: Any) -> list[Stage]:
    """Change one stage."""
    changed = list(stages)
    changed[index] = replace(changed[index], **changes)
    return changed
