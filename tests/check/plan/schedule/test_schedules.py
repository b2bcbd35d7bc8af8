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
)
def test_both_add_the_same(name: str, kappa: int, tau: int, crosses: bool) -> None:
    longest = max(kappa, tau)
    expected = rule_of(name).delta(kappa, longest, crosses=crosses)
    assert STEPS[name].between(kappa, longest, crosses=crosses) == expected


def test_the_checker_imports_nothing_of_the_schedules() -> None:
    for path in Path(hetopt.check.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            assert not (module or "").startswith("hetopt.schedule"), path
