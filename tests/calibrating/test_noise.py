"""Noisy runs set no factor to its bound unless that is forced."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.calibrating.one_run import fit
from hetopt.calibrating.several_runs import fit_jointly
from hetopt.errors import InputError
from tests.calibrating.making import (
    plan_of_one,
    problem_of,
    problem_of_one,
    run_of,
    seconds,
)

NOISE = ("iterations that differ by 31% of their median", "a load of 4.0 on 2 cores")
QUIET = run_of(problem_of(), 1e4)
NOISY = replace(QUIET, file="m.json", noise=NOISE)


def test_one_noisy_run_does_not_reach_a_bound() -> None:
    with pytest.raises(InputError) as refused:
        fit(NOISY)
    assert str(refused.value) == (
        "m.json: has iterations that differ by 31% of their median and a load of 4.0 "
        "on 2 cores, and efficiency of a would be at its bound of 0.25: run again on a "
        "quiet machine, or calibrate with --force"
    )
    assert fit(NOISY, force=True) == fit(QUIET)


def test_a_noisy_run_within_bounds_is_used() -> None:
    measured_s = 1.2 * seconds(problem_of())
    run = run_of(problem_of(), measured_s)
    assert fit(replace(run, file="m.json", noise=NOISE)) == fit(run)


@pytest.mark.slow
def test_several_runs_of_which_one_is_noisy() -> None:
    problem = problem_of_one()
    other = run_of(problem, 1e4, plan_of_one(tp=1, microbatches=2))
    quiet = run_of(problem, 1e4, plan_of_one(tp=8, microbatches=16))
    noisy = replace(quiet, file="m.json", noise=NOISE)
    with pytest.raises(InputError, match=r"m.json: has .*, and efficiency of "):
        fit_jointly([other, noisy])
    assert fit_jointly([other, noisy], force=True) == fit_jointly([other, quiet])
