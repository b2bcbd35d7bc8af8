"""``hetopt plan --solver mcts``, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hetopt.cli import main
from tests.schemas import ensure_fits

if TYPE_CHECKING:
    from pathlib import Path

PROBLEM = "hetauto-exp1"


@pytest.mark.slow
def test_plan_and_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "plan.json"
    arguments = ["plan", PROBLEM, "--solver", "mcts", "--out", str(out)]
    options = ["--jobs", "1", "--iterations", "5000", "--exploration", "1"]
    assert main([*arguments, *options]) == 0
    data = json.loads(out.read_text("utf-8"))
    ensure_fits(data, "result")
    assert data["solver"] == "mcts"
    assert data["status"] == "feasible"
    assert 0 < data["lower_bound_s"] < data["closed_form_s"]
    assert "from the best possible" in capsys.readouterr().out
    assert main(["check", PROBLEM, str(out)]) == 0


@pytest.mark.parametrize(
    ("solver", "options", "message"),
    [
        ("mcts", ["--journal", "x.jsonl"], "--journal: solver mcts does not race"),
        ("mcts", ["--certificate", "x.json"], "--certificate: solver mcts does not"),
        ("mcts", ["--executor", "ray"], "--executor: solver mcts does not race"),
        ("mcts", ["--pareto"], "--pareto: solver mcts does not race"),
        ("mcts", ["--objective", "cost"], "--objective cost: solver mcts does not"),
        ("mcts", ["--relax", "p4"], "--relax: solver mcts cannot relax p4"),
        ("mcts", ["--objective", "simulated"], "--solver: is mcts, but the search fo"),
        ("mcts", ["--schedule", "free-1f1b"], "--solver: is mcts, but the search for"),
        ("mcts-guided", ["--journal", "x"], "--journal: solver mcts-guided does not"),
        (
            "dp",
            ["--iterations", "5"],
            "--iterations: solver dp does not use this option",
        ),
        (
            "dp",
            ["--exploration", "5"],
            "--exploration: solver dp does not use this option",
        ),
    ],
)
def test_refusals_are_one_line(
    solver: str,
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", PROBLEM, "--solver", solver, *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    "options",
    [["--exploration", "-1"], ["--exploration", "nan"], ["--iterations", "0"]],
)
def test_numbers_out_of_range_are_usage_errors(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["plan", PROBLEM, "--solver", "mcts", *options])
    assert stopped.value.code == 2
    assert options[0] in capsys.readouterr().err
