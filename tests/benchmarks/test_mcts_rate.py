"""The rate of tree search is measured, and meets its bar with room to spare."""

from __future__ import annotations

import re

import pytest

from benchmarks.mcts_rate import main


@pytest.mark.slow
def test_iterations_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hetauto-exp1", "--seconds", "0.2"]) == 0
    printed = capsys.readouterr().out
    found = re.search(r"([\d,]+) iterations of 48 trees", printed)
    assert found is not None
    assert int(found[1].replace(",", "")) >= 0.2 * 20_000
