"""``hetopt plan --solver uniap``, and the commands that read what it wrote."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.cli import main
from tests.schemas import ensure_fits

if TYPE_CHECKING:
    from pathlib import Path

PROBLEM = "uniap-bert-huge"


def planned(out: Path, *options: str) -> dict[str, Any]:
    arguments = ["plan", PROBLEM, "--solver", "uniap", "--out", str(out), *options]
    assert main(arguments) == 0
    data: dict[str, Any] = json.loads(out.read_text("utf-8"))
    return data


def test_plan_check_and_simulate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plan.json"
    data = planned(out)
    printed = capsys.readouterr().out
    assert " strategy " in printed
    assert "dp2-tp1 x" in printed
    assert "s per iteration as UniAP counts, " in printed
    ensure_fits(data, "result")
    assert data["status"] == "optimal"
    assert data["objective"] == data["solver"] == "uniap"
    assert data["lower_bound_s"] == data["objective_s"]
    assert main(["check", PROBLEM, str(out)]) == 0
    assert main(["simulate", PROBLEM, str(out)]) == 0
    assert f"{data['iteration_time_s']:.6f} s" in capsys.readouterr().out


@pytest.mark.slow
def test_the_plan_belongs_to_its_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, out = tmp_path / "table.json", tmp_path / "plan.json"
    assert main(["table", PROBLEM, "--out", str(table)]) == 0
    first = planned(out, "--table", str(table))
    assert main(["check", PROBLEM, str(out), "--table", str(table)]) == 0
    # Without --table the same coefficients are made anew.
    assert main(["check", PROBLEM, str(out)]) == 0
    data = json.loads(table.read_text("utf-8"))
    for part in data["per_unit"]["slices"]:
        for strategy in part["clusters"][0]["strategies"]:
            for kind in strategy["forward_ns"]:
                strategy["forward_ns"][kind] *= 2
    table.write_text(json.dumps(data), "utf-8")
    capsys.readouterr()
    assert main(["check", PROBLEM, str(out), "--table", str(table)]) != 0
    assert "made from another table" in capsys.readouterr().err
    second = planned(out, "--table", str(table))
    assert second["objective_s"] > first["objective_s"]


@pytest.mark.parametrize(
    ("problem", "options", "message"),
    [
        ("hetauto-exp1", [], "clusters, but UniAP plans for one"),
        (PROBLEM, ["--schedule", "1f1b"], "is 1f1b, but UniAP plans gpipe"),
        (PROBLEM, ["--top", "2"], "--top: is 2, but uniap reports one plan"),
    ],
)
def test_refusals_are_one_line(
    problem: str,
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", problem, "--solver", "uniap", *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_a_problem_that_names_another_schedule_can_be_planned_with_gpipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["plan", "hetauto-table1-a100", "--solver", "uniap", "--json"]
    assert main([*arguments, "--schedule", "gpipe", "--time-limit", "2"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["plan"]["schedule"] == "gpipe"
