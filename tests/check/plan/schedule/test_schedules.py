"""The checker's table of schedules says what the solvers' records say."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetopt.check
from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.problem.training.choices import SCHEDULE_CHOICES
from hetopt.schedule.schedules import rule_of


def test_every_name_is_there() -> None:
    assert tuple(STEPS) == SCHEDULE_CHOICES


@pytest.mark.parametrize("name", SCHEDULE_CHOICES)
def test_both_say_the_same(name: str) -> None:
    steps, rule = STEPS[name], rule_of(name)
    assert (steps.inside, steps.across) == (rule.inside, rule.across)
    assert (steps.all_first, steps.free) == (rule.all_first, rule.free)
    assert steps.free or steps.most == rule.most_inside


@given(
    name=st.sampled_from(
        [n for n in STEPS if rule_of(n).fixed or rule_of(n).thresholds]
    ),
    kappa=st.integers(0, 10**6) | st.integers(0, 200),
    tau=st.integers(1, 10**6) | st.integers(1, 200),
    crosses=st.booleans(),
    parts=st.none() | st.integers(3, 1000),
)
def test_both_add_the_same(
    name: str, kappa: int, tau: int, crosses: bool, parts: int | None
) -> None:
    longest, steps = max(kappa, tau), STEPS[name]
    epsilon = 1 / parts if parts and rule_of(name).thresholds else None
    expected = rule_of(name, epsilon).delta(kappa, longest, crosses=crosses)
    found = steps.between(kappa, longest, crosses=crosses, epsilon=epsilon)
    assert found == expected


def test_the_checker_imports_nothing_of_the_schedules() -> None:
    for path in Path(hetopt.check.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            assert not (module or "").startswith("hetopt.schedule"), path
