"""Our memory against measured peaks, runs that ran, and others' formulas."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.memory import (
    EXPERTS_ERROR,
    MEASURED_BELOW,
    MEASURED_ERROR,
    foundry_runs,
    measured_peaks,
    reference_rows,
)

REFERENCE = Path(__file__).parents[2].parent / "shared" / "reference"


def test_peaks_measured_on_b200() -> None:
    rows = list(measured_peaks())
    assert len(rows) == 18
    for case, measured, ours in rows:
        most = EXPERTS_ERROR if case.startswith("deepseek") else MEASURED_ERROR
        assert -MEASURED_BELOW <= ours / measured - 1 <= most, case


def test_every_run_of_llm_foundry_fits() -> None:
    rows = list(foundry_runs())
    assert len(rows) == 108
    assert [name for name, ours, offered in rows if ours > offered] == []


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="reference numbers not here")
def test_formulas_of_others() -> None:
    for what, theirs, ours, error, above in reference_rows(REFERENCE):
        off = ours / theirs - 1
        assert -error <= off <= (1 if above else error), what
