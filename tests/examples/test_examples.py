"""The examples run as they are, and print what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hetopt
from tests.docs.pages import ROOT
from tests.own_packages import blocks

#: Something that each prints.
EXAMPLES = {
    "export_plan": "bundle-megatron/hostfile",
    "own_solver": "draw: feasible",
    "pin_and_explain": "degrees on a100: ",
    "plan_a_problem": " s per iteration, simulated",
    "what_if": "another node of h20: ",
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    assert hetopt.__file__ is not None
    package = str(Path(hetopt.__file__).parents[1])
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / f"{name}.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": package},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert EXAMPLES[name] in ended.stdout


def test_there_are_no_others() -> None:
    files = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert files == {*EXAMPLES}


def test_the_solver_is_that_of_the_page() -> None:
    module = blocks("docs/how-to/write-a-solver.md", "python")[0]
    assert (ROOT / "examples" / "own_solver.py").read_text("utf-8").startswith(module)
