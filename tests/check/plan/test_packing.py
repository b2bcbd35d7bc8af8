"""Stages that nodes cannot hold, and tables that count others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.check.plan.plan import check_plan
from hetopt.errors import CheckError
from hetopt.plans.plan import Stage
from hetopt.plans.strategy import Strategy
from hetopt.problem.problem import Problem
from hetopt.problem.training.principles import PRUNED, Principles
from tests.oracle import plain


def problem(*nodes: int) -> Problem:
    unequal = nodes if len(set(nodes)) > 1 else None
    cluster = plain.cluster("a", len(nodes), max(nodes), unequal=unequal, max_tp=1)
    return plain.problem(clusters=(cluster,))


def findings(
    own: Problem, *sizes: int, principles: Principles = PRUNED, more: int = 0
) -> list[str]:
    """Check a plan with stages of so many replicas, of a table off by ``more``."""
    used = [Strategy(dp=size, cp=1, tp=1) for size in sizes]
    costs = plain.table(own, list(dict.fromkeys(used)))
    if more:
        (part, *rest) = costs.slices
        rows = part.clusters[0]
        rows = replace(rows, max_stages=rows.max_stages + more)
        part = replace(part, clusters=(rows,))
        costs = replace(costs, slices=(part, *rest))
    ends = [*range(1, len(sizes)), own.model.layers + 1]
    stages = [
        Stage(
            cluster="a",
            first_unit=0 if i == 0 else ends[i - 1] + 1,
            end_unit=ends[i] + 1,
            strategy=strategy,
            warmup=1,
            resharding=None if i == len(sizes) - 1 else "p2p",
        )
        for i, strategy in enumerate(used)
    ]
    plan = plain.plan(own, costs, stages, microbatches=1)
    try:
        check_plan(own, costs, plan, principles)
    except CheckError as error:
        return list(error.findings)
    return []


RELAXED = Principles.relaxing(["p4"])


@pytest.mark.parametrize(
    ("nodes", "sizes", "told"),
    [
        ((8, 8), (4, 4, 4, 4), None),
        ((8, 7), (8, 4, 2, 1), None),
        (
            (8, 8, 1),
            (8, 8, 1, 1),
            "stages take 18 devices, it has 17",
        ),
        (
            (6, 6, 6),
            (4, 4, 4, 4),
            "its nodes (3 of 6 devices) cannot hold stages: 4 of 4 devices",
        ),
        (
            (4, 4, 3),
            (8, 2, 1, 2),
            "stages take 13 devices, it has 11",
        ),
        (
            (4, 4, 3),
            (4, 4, 2, 2),
            "stages take 12 devices, it has 11",
        ),
        (
            (4, 4, 3, 3),
            (4, 4, 4, 1),
            "its nodes (2 of 4, 2 of 3 devices) cannot hold stages: 1 of 1 device "
            "and 3 of 4 devices",
        ),
    ],
)
def test_room(nodes: tuple[int, ...], sizes: tuple[int, ...], told: str | None) -> None:
    found = [
        line
        for line in findings(problem(*nodes), *sizes, principles=RELAXED)
        if "cannot hold" in line or "it has" in line
    ]
    assert found == ([] if told is None else [f"cluster 'a': {told}"])


@pytest.mark.parametrize("more", [-1, 1])
def test_a_table_that_counts_other_stages(more: int) -> None:
    found = findings(problem(8, 8, 8, 7), 8, 8, more=more)
    assert any(f"table: {3 + more} stages of" in line for line in found)
    assert any("its nodes hold 3" in line for line in found)
