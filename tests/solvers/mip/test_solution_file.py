"""Solution files that are cut off: the message names the line that is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hetopt.errors import InputError
from hetopt.solvers.mip.solution_file import read_solution

if TYPE_CHECKING:
    from pathlib import Path

GLPK = "Problem: x\nStatus: INTEGER OPTIMAL\n   No. Column name\n------\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# Objective value = 3\nx\n", "line 'x', expected a column and its value"),
        ("solution status: ok\nx\n", "line 'x', expected a column and its value"),
        ("Model status\nOptimal\n# Columns 1\nx\n", "line 'x', expected a column"),
        ("Model status\nOptimal\n# Columns\n", "'# Columns', expected the number of"),
        ("Model status\nOptimal\n# Columns x\n", "'x', expected a whole number"),
        ("Model status\nOptimal\n# Columns 2\nx 1\n", "expected 2 columns, but the"),
        ("Model status\n", "HiGHS found no solution"),
        ("Optimal - objective value 3\n 0 x\n", "line '0 x', expected number, column"),
        ("Optimal - objective value 3\n y x 1\n", "'y', expected a whole number"),
        (GLPK + "1 x   \n", "line '', expected the value of x"),
        (GLPK + "x\n", "line 'x', expected number and column"),
        ("s mip\n", "line 's mip', expected 's', kind, rows"),
        ("s mip 1 1 o 3\nj 1\n", "line 'j 1', expected 'j', number and value"),
        ("# Objective value = 3\nx one\n", "x is one, expected a finite number"),
        ("# Objective value = 3\nx 1\nx 1\n", "x occurs twice"),
    ],
)
def test_a_malformed_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "model.sol"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_solution(str(path)).columns(["x"], [True])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "Optimal - objective value 3\n 0 x 1 0\n",
        "Model status\nOptimal\n# Columns 1\nx 1\n",
    ],
)
def test_lines_may_be_empty_before_the_first(tmp_path: Path, text: str) -> None:
    path = tmp_path / "model.sol"
    path.write_text("\n \n" + text)
    solution = read_solution(str(path))
    assert solution.status.strip() == "Optimal"
    assert solution.columns(["x"], [True]) == [1.0]
