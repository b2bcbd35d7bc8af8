"""What is written is read alike: by GLPK, CBC, SCIP and HiGHS, as LP and as MPS."""

from __future__ import annotations

from itertools import product
from math import inf
from pathlib import Path

import pytest

from hetopt.errors import InputError
from hetopt.formulations.cp_sat.program import PipelineProgram
from hetopt.formulations.intervals.program import IntervalProgram
from hetopt.formulations.linear_program import LinearProgram
from hetopt.formulations.program_text import column_names, lp_text, mps_text, number
from hetopt.solvers.decisions.exact import exact_value
from hetopt.solvers.mip.solution_file import read_solution
from tests.formulations import programs, readers
from tests.oracle.instances import OVERLAPPING, make_instance

WRITE = {"lp": lp_text, "mps": mps_text}
SOLVERS = ("glpk", "cbc", "scip", "highs")


def written(program: LinearProgram, folder: Path, form: str) -> Path:
    path = folder / f"model.{form}"
    path.write_text(WRITE[form](program, ["a comment: x <= 3", "and é more"]))
    return path


def solved(
    program: LinearProgram, path: Path, solver: str, folder: Path
) -> list[float]:
    """Return the value of every column."""
    out = folder / f"{solver}.sol"
    readers.READERS[solver](path, out)
    return read_solution(str(out)).columns(column_names(program), program.integer)


def odd() -> LinearProgram:
    """A program with one of everything that readers differ in."""
    program = LinearProgram()
    for name, lower, upper, integer, cost in (
        ("a(1)", 0, 1, True, -1.2345678901234567),
        ("e10", 0, 1, True, -1),
        ("x" * 120, 0, 10, True, -1),
        ("x" * 121, 0, inf, True, 1),
        ("f free", -inf, inf, False, 0.25),
        ("free", -inf, 7, False, 0.2500000001),
        ("neg", -5, -1, True, 0),
        ("in no row", 0, 3, True, 0),
        ("big", 0, 1e15, False, 1e-3),
        ("fixed", 1, 1, True, 5),
        ("nought", 0, 0, True, -9),
        ("objective", 2, 40, True, 1),
    ):
        column = program.column(name, upper=upper, integer=integer)
        program.lower[column], program.cost[column] = lower, cost
    program.row("sum", {0: 1, 1: 1}, upper=1.5)
    program.row("both", {2: 1}, lower=1.5, upper=7.123456789012345)
    program.row("empty", {}, upper=5)
    program.row("free", {4: 1, 5: 1, 6: 1}, lower=-3, upper=4)
    program.row("no side", {2: 1, 8: 1e-9})
    program.row("digits", {2: 1.0000000000000002, 6: 1 / 3}, upper=7)
    program.equal("objective", {3: 1, 11: -1}, 0.0)
    return program


@pytest.mark.parametrize("form", WRITE)
@pytest.mark.parametrize("solver", SOLVERS)
def test_odd_programs(tmp_path: Path, solver: str, form: str) -> None:
    program = odd()
    path = written(program, tmp_path, form)
    values = solved(program, path, solver, tmp_path)
    cost = sum(c * x for c, x in zip(program.cost, values, strict=True))
    # a(1), seven xs, -3 - neg of the free ones, fixed, objective and its equal.
    assert cost == pytest.approx(
        -1.2345678901234567 - 7 + 0.25 * (-3 + 1) + 7 * 1e-10 + 5 + 2 + 2, rel=1e-6
    )
    assert [values[j] for j in (0, 1, 2, 3, 6, 9, 10, 11)] == [1, 0, 7, 2, -1, 1, 0, 2]


@pytest.mark.parametrize("form", WRITE)
@pytest.mark.parametrize("solver", SOLVERS)
def test_an_empty_row_that_does_not_hold(
    tmp_path: Path, solver: str, form: str
) -> None:
    program = odd()
    program.row("never", {}, lower=1)
    path = written(program, tmp_path, form)
    with pytest.raises(InputError, match="found no solution"):
        solved(program, path, solver, tmp_path)


def test_all_digits() -> None:
    assert [float(number(value)) for value in (1 / 3, 1e-12, 2.0**60, -0.1)] == [
        1 / 3,
        1e-12,
        2.0**60,
        -0.1,
    ]
    assert (number(3.0), number(-2), number(0.0)) == ("3", "-2", "0")


def test_names_and_lines() -> None:
    program = odd()
    names = column_names(program)
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 90
    for text in (lp_text(program, ["é" * 500]), mps_text(program, ["a\nb"])):
        assert text.isascii()
        assert max(map(len, text.splitlines())) <= 255


#: Seed, stages and micro-batches of two programs of every schedule.
TEN = (
    *((60, 3, 2), (70, 4, 4), (61, 2, 4), (66, 3, 2), (62, 3, 4)),
    *((67, 4, 4), (63, 3, 2), (68, 3, 4), (64, 3, 2), (74, 3, 2)),
)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "p", "q"), TEN)
def test_the_optimum_of_cp_sat(tmp_path: Path, seed: int, p: int, q: int) -> None:
    """GLPK, CBC, SCIP and HiGHS find CP-SAT's optimum in the files of ten programs."""
    instance = make_instance(seed)
    assert instance.table.schedule == OVERLAPPING[seed % len(OVERLAPPING)]
    data = programs.data_of(
        instance.table, p, q, instance.problem.pins, cutoff=10**7 * programs.ENOUGH
    )
    best = programs.optimum(PipelineProgram(data))
    assert best is not None
    for form, solver in product(WRITE, SOLVERS):
        program = IntervalProgram(data)
        path = written(program.program, tmp_path, form)
        values = solved(program.program, path, solver, tmp_path)
        found = exact_value(program.extract(values), data)
        assert found == best.value, (form, solver)
        costs = zip(program.program.cost, values, strict=True)
        objective = sum(c * x for c, x in costs) * program.scale
        # CP-SAT's lambda is a whole number; GLPK prints six digits.
        assert objective == pytest.approx(best.value, rel=2e-5, abs=q), (form, solver)
