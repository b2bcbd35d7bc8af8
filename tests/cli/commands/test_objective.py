"""``hetopt plan --objective simulated``: what is printed, written, checked, refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import RunHetopt


@pytest.mark.slow
def test_the_simulated_optimum_is_proven_checked_and_never_worse(
    run_hetopt: RunHetopt, small: Path, tmp_path: Path
) -> None:
    problem, out = str(small / "problem.yaml"), tmp_path / "plan.json"
    closed = run_hetopt("plan", problem, "--json")
    done = run_hetopt("plan", problem, "--objective", "simulated", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert ": proven optimal" in done.stdout
    assert "in closed form" not in done.stdout
    result = json.loads(out.read_text())
    assert result["objective"] == "simulated"
    assert result["status"] == "optimal"
    assert result["lower_bound_s"] == pytest.approx(result["iteration_time_s"])
    other = json.loads(closed.stdout)
    assert result["iteration_time_s"] <= other["iteration_time_s"]
    assert result["closed_form_s"] >= other["closed_form_s"] * (1 - 1e-12)
    checked = run_hetopt("check", problem, str(out))
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--solver", "uniap"), "--solver: is uniap, which has an objective of its"),
        (("--solver", "mcts"), "--solver: is mcts, but the search for the least"),
    ],
)
def test_what_does_not_go_with_it_is_refused(
    run_hetopt: RunHetopt,
    small: Path,
    tmp_path: Path,
    options: tuple[str, ...],
    said: str,
) -> None:
    problem = str(small / "problem.yaml")
    done = run_hetopt(
        "plan", problem, "--objective", "simulated", *options, cwd=tmp_path
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
