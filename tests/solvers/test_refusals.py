"""Solvers are refused by name under schedules that they do not support."""

from __future__ import annotations

import pytest

from hetopt.errors import InputError
from hetopt.problem.training.choices import SCHEDULES, ScheduleName
from hetopt.problem.training.principles import Principles
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.refusals import ensure_keeps, ensure_plans
from hetopt.solvers.registry import SOLVERS

P3 = Principles.relaxing(["p3"])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_solvers_that_do_not_support_a_schedule(schedule: ScheduleName) -> None:
    rule = rule_of(schedule)
    for name, record in SOLVERS.items():
        able = (
            (record.blocks or not rule.blocking)
            and (record.interleaves or not rule.interleaved)
            and (record.splits or not rule.splits)
        )
        if able:
            ensure_plans(name, schedule)
            continue
        with pytest.raises(InputError, match=f"solver {name} .*use auto, cp-sat, dp"):
            ensure_plans(name, schedule)


@pytest.mark.parametrize("schedule", ["interleaved-1f1b", "zb-h1", "zb-v"])
def test_schedules_under_which_all_principles_are_kept(schedule: ScheduleName) -> None:
    with pytest.raises(InputError, match=f"{schedule}: leave it out"):
        ensure_keeps(schedule, P3)
