"""``hetopt export`` of a plan that a launcher does not run as it is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hetopt.cli import main, remedy

CLOSED = ("--objective", "closed", "--jobs", "1", "--out")


@pytest.fixture
def planned(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Plan two stages under GPipe, which few launchers run, in a folder of its own."""
    text = (small / "problem.yaml").read_text("utf-8")
    text = text.replace("seq_len: 1024", "seq_len: 1024, schedule: gpipe")
    (tmp_path / "problem.yaml").write_text(f"{text}pin: {{stages: 2}}\n")
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "problem.yaml", *CLOSED, "plan.json"]) == 0
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], launcher: str, *more: str) -> list[str]:
    """Return the lines that export prints when it refuses the plan."""
    capsys.readouterr()
    export = ["export", "problem.yaml", "plan.json", "--to", launcher, "--out", "no"]
    assert main([*export, *more]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert not Path("no").exists()
    return printed.err.splitlines()


def test_it_says_how_to_plan_again_and_what_that_costs(
    planned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = refused(capsys, "megatron")
    assert lines[0].startswith("Megatron-LM cannot do: schedule gpipe")
    found = re.fullmatch(
        r"plan again with --for megatron \((.*%)\), or --allow-lossy", lines[-1]
    )
    assert found is not None

    again = ["--jobs", "1", "--for", "megatron", "--out", "again.json"]
    assert main(["plan", "problem.yaml", *again]) == 0
    times = [
        json.loads(Path(name).read_text("utf-8"))["iteration_time_s"]
        for name in ("again.json", "plan.json")
    ]
    assert found[1] == f"{times[0] / times[1] - 1:+.1%}"
    there = ["problem.yaml", "again.json", "--to", "megatron", "--out", "bundle"]
    assert main(["export", *there]) == 0


def test_without_a_substitute_losses_are_no_remedy(
    planned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # HexiScale has no configuration of this model, so it runs no plan of it.
    lines = refused(capsys, "hexiscale")
    assert all(line.startswith("HexiScale cannot do: ") for line in lines)


def test_a_launcher_without_limits_has_substitutes_alone(
    planned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, "torchtitan")[-1] == "export again with --allow-lossy"


def test_a_search_that_takes_too_long_says_no_price(
    planned: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remedy, "_LIMIT_S", 1e-6)
    last = refused(capsys, "megatron")[-1]
    assert last == "plan again with --for megatron, or --allow-lossy"


def test_with_a_table_there_is_no_price(
    planned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = ("--table", "table.json")
    assert main(["table", "problem.yaml", "--out", "table.json"]) == 0
    assert main(["plan", "problem.yaml", *table, *CLOSED, "plan.json"]) == 0
    last = refused(capsys, "megatron", *table)[-1]
    assert last == "plan again with --for megatron, or --allow-lossy"
