"""Our memory against measured peaks, runs that ran, and others' formulas."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.memory import (
    EXPERTS_ERROR,
    GOLDEN_BELOW,
    GOLDEN_ERROR,
    MEASURED_BELOW,
    MEASURED_ERROR,
    foundry_runs,
    golden_rows,
    measured_peaks,
    recipe_steps,
    reference_rows,
)

REFERENCE = Path(__file__).parents[2].parent / "shared" / "reference"


def test_peaks_measured_on_b200() -> None:
    rows = list(measured_peaks())
    assert len(rows) == 18
    for case, measured, ours in rows:
        most = EXPERTS_ERROR if case.startswith("deepseek") else MEASURED_ERROR
        assert -MEASURED_BELOW <= ours / measured - 1 <= most, case


@pytest.mark.slow
def test_every_run_of_llm_foundry_fits() -> None:
    rows = list(foundry_runs())
    assert len(rows) == 108
    assert [name for name, _, ours, offered in rows if ours > offered] == []


def test_the_results_are_what_the_benchmark_prints() -> None:
    text = (Path(__file__).parents[2] / "benchmarks/results/memory.md").read_text()
    lines = text.splitlines()
    for case, measured, ours in measured_peaks():
        error = f"{ours / measured - 1:+.1%}"
        assert f"| {case} | {measured:.2f} | {ours:.2f} | {error} |" in lines
    for what, ours, offered in recipe_steps():
        fits = "yes" if ours <= offered else "no"
        assert f"| {what} | {ours:.1f} | {offered:.1f} | {fits} |" in lines


def test_a_recipe_that_ran_fits_as_its_software_runs_it() -> None:
    sizes = [(ours, offered) for _, ours, offered in recipe_steps()]
    assert sizes[0][0] > sizes[0][1]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1][0] < sizes[-1][1]


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="measured peaks not here")
def test_peaks_of_megatron_lms_tests() -> None:
    rows = list(golden_rows(REFERENCE))
    assert len(rows) == 6
    for name, measured, ours in rows:
        assert -GOLDEN_BELOW <= ours / measured - 1 <= GOLDEN_ERROR, name


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="reference numbers not here")
def test_formulas_of_others() -> None:
    for what, theirs, ours, error, above in reference_rows(REFERENCE):
        off = ours / theirs - 1
        assert -error <= off <= (1 if above else error), what
