"""The wide oracle: every space holds the narrower ones, and all sorts occur."""

from __future__ import annotations

from collections import Counter

import pytest

from hetopt.problem.training.principles import PRUNED, Principles
from tests.oracle import brute_force, wide
from tests.oracle.brute_force import Answer
from tests.oracle.instances import (
    MAX_WIDE_PLANS,
    WIDEST,
    Instance,
    count_plans,
    make_instance,
)

#: Seeds of sorts that are few.
RARE = (79, 83, 94, 105, 123, 319, 416)
P3 = Principles.relaxing(["p3"])
FALLING = Principles.relaxing(["p4-falling-tp"])
P4 = Principles.relaxing(["p4"])


def answers(instance: Instance, *spaces: Principles) -> list[Answer]:
    return [
        brute_force.solve(instance.problem, instance.table, space) for space in spaces
    ]


def least(answer: Answer) -> float:
    return float("inf") if answer.best is None else float(answer.best.value_ns)


@pytest.mark.parametrize("seed", range(20))
def test_sequences_that_keep_all_principles_are_the_pruned_space(seed: int) -> None:
    instance = make_instance(seed, widest=True)
    table = instance.table
    assert wide.count_plans(table, PRUNED, MAX_WIDE_PLANS) == count_plans(table)


@pytest.mark.slow
def test_wider_spaces_hold_narrower_ones_and_all_sorts_occur() -> None:
    seen: Counter[str] = Counter()
    for seed in (*range(60), *RARE):
        instance = make_instance(seed, widest=True)
        spaces = (PRUNED, FALLING, P4, P3, WIDEST)
        pruned, falling, p4, p3, widest = map(least, answers(instance, *spaces))
        assert widest <= min(p4, p3)
        assert p4 <= falling <= pruned
        assert p3 <= pruned
        seen["p4 pays"] += p4 < pruned
        seen["any order pays"] += p4 < falling
        seen["p3 pays"] += p3 < pruned
        seen["both pay"] += widest < min(p4, p3)
        seen["feasible at last"] += widest < pruned == float("inf")
    assert min(seen["p4 pays"], seen["p3 pays"]) >= 5, seen
    assert min(seen.values()) >= 1, seen
