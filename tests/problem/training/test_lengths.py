"""Histograms of lengths are read from CSV files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hetopt.errors import InputError
from hetopt.problem.training.lengths import read_histogram

if TYPE_CHECKING:
    from pathlib import Path


def test_shares_are_of_all_sequences(tmp_path: Path) -> None:
    path = tmp_path / "lengths.csv"
    path.write_text("# measured\ntokens,count\n512,3\n\n1024,1\n2048,0\n")
    assert read_histogram(path) == {512: 0.75, 1024: 0.25}


def test_what_is_no_csv_is_said_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "lengths.csv"
    path.write_text("tokens,count\n512," + "1" * 200_000 + "\n")
    with pytest.raises(InputError, match=r"lengths\.csv:2: is not CSV: field larger"):
        read_histogram(path)
