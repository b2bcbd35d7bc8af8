"""The launcher that a report proposes runs the plan as it is."""

from __future__ import annotations

import pytest

from hetopt.export.bundle import bundle
from hetopt.export.choosing import launcher_of
from hetopt.export.registry import launcher
from tests.export.jobs import as_llama, draw_job


@pytest.mark.parametrize("seed", range(12))
def test_it_loses_nothing(seed: int) -> None:
    job = draw_job(seed)
    name = launcher_of(job.problem, job.plan)
    assert name is not None
    assert "LOSSY.md" not in bundle(job, launcher(name), allow_lossy=False)


def test_the_one_that_was_planned_for_is_first() -> None:
    job = as_llama(draw_job(3, alike=True, cp=False, schedules=("1f1b",)), zero=1)
    assert launcher_of(job.problem, job.plan) == "megatron"
    assert launcher_of(job.problem, job.plan, "torch") == "torch"
    # One that cannot run it is not proposed.
    mixed = draw_job(5)
    assert launcher_of(mixed.problem, mixed.plan, "megatron") != "megatron"
