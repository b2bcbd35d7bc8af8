"""``hetopt formulate --formulation uniap`` writes what the solver solves."""

from __future__ import annotations

import re
from pathlib import Path

import highspy
import pytest

from hetopt.cli import main
from hetopt.cost.build import build_table
from hetopt.formulations.uniap.programs import uniap_programs
from hetopt.problem.catalogue import problem_files
from hetopt.problem.reading import read_problem
from hetopt.solvers.uniap.search import solve_programs

PROBLEM = str(problem_files()["uniap-bert-huge"])


@pytest.mark.parametrize("name", ["model.lp", "model.mps"])
def test_the_written_program_has_the_solver_s_optimum(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    out = tmp_path / name
    arguments = ["formulate", PROBLEM, "--formulation", "uniap", "--out", str(out)]
    assert main([*arguments, "--p", "2", "--q", "8"]) == 0
    printed = capfd.readouterr().out
    (unit,) = re.findall(r"units of (\S+) nanoseconds", printed)
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    # Presolve of this version is not to be trusted; see ``hetopt.solvers.mip.highs``.
    highs.setOptionValue("presolve", "off")
    highs.readModel(str(out))
    highs.run()
    problem = read_problem(PROBLEM)
    (program,) = (
        program
        for program in uniap_programs(problem, build_table(problem))
        if (program.stages, program.microbatches) == (2, 8)
    )
    value = solve_programs([program]).value_ns
    found = highs.getInfo().objective_function_value * float(unit)
    assert found == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize(("stages", "message"), [("3", "1/3"), ("40", "not possible")])
def test_says_which_stages_are_impossible(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stages: str, message: str
) -> None:
    arguments = ["formulate", PROBLEM, "--formulation", "uniap"]
    arguments += ["--out", str(tmp_path / "model.lp"), "--p", stages, "--q", "8"]
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
