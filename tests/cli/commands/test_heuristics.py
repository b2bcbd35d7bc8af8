"""``hetopt plan`` with the heuristics that the papers compare themselves with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    RunHetopt = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("name", ["dfs", "uniform", "amp", "metis"])
def test_plans_pass_the_check(name: str, planned: Path, run_hetopt: RunHetopt) -> None:
    done = run_hetopt(
        "plan",
        "problem.yaml",
        *("--solver", name, "--json", "--out", f"{name}.json"),
        cwd=planned,
    )
    assert (done.returncode, done.stderr) == (0, "")
    printed = json.loads(done.stdout)
    assert (printed["solver"], printed["status"]) == (name, "feasible")
    optimum = json.loads((planned / "plan.json").read_text())
    if name in ("uniform", "amp"):
        assert "relaxed" not in printed
        assert printed["closed_form_s"] >= optimum["closed_form_s"] * (1 - 1e-9)
    checked = run_hetopt("check", "problem.yaml", f"{name}.json", cwd=planned)
    assert checked.returncode == 0, checked.stderr


def test_what_they_do_not_know_is_refused(planned: Path, run_hetopt: RunHetopt) -> None:
    done = run_hetopt(
        *("plan", "problem.yaml", "--solver", "metis", "--relax", "p4"), cwd=planned
    )
    assert done.returncode == 2
    assert "solver metis cannot relax p4" in done.stderr
    (planned / "units.yaml").write_text(
        (planned / "problem.yaml").read_text() + "pin: {units: [3, 3]}\n"
    )
    done = run_hetopt("plan", "units.yaml", "--solver", "dfs", cwd=planned)
    assert done.returncode == 2
    assert "pin.units: solver dfs decides the units itself" in done.stderr
    assert done.stderr.count("\n") == 1
