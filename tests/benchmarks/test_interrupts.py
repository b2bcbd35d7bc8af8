"""A few interruptions; ``python -m benchmarks.interrupts`` has more."""

from __future__ import annotations

import sys

import pytest

from benchmarks.interrupts import SOLVERS, Lab, run, trials


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_interruptions_leave_hetopts_own_words_and_nothing_else() -> None:
    drawn = trials(2 * len(SOLVERS), seed=2, longest_s=2.0)
    assert {trial.solver for trial in drawn} == set(SOLVERS)
    assert {trial.late for trial in drawn} == {True, False}
    for trial, outcome in run(Lab("hetauto-exp3"), drawn):
        assert not outcome.wrong, str(trial)
