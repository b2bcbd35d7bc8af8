"""What an answer says that it was asked: it is checked, and can be asked again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hetopt.cli import main
from tests.cli.conftest import answer

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_what_was_asked_is_checked(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plan.json"
    problem = str(small / "problem.yaml")
    found = answer(problem, out, "--for", "none")
    differs = "is not of what was asked"
    for key, value, line in (
        ("budget", 2, f"over.fleets: {differs}"),
        ("pareto", True, f"over.fleets: {differs}"),
        ("pipelines", 2, f"over.divisions: {differs}"),
        ("launcher", "megatron", f"over.launcher: {differs}"),
        ("schedule", "zb-h1", f"plan.schedule: {differs}"),
        ("schedule", "auto", f"over.schedules: {differs}"),
        ("relax", "p3", f"relaxed: {differs}"),
        ("objective", "simulated", f"objective: closed {differs}"),
        ("solver", "cp-sat", f"solver: dp {differs}"),
        ("stability", True, "stability: is missing"),
        ("chunks", [2], "asked: --chunks: is 2 with schedule virtual-1f1b"),
        ("top", 0, "asked.top: is 0, expected a whole number of at least 1"),
    ):
        asked = {**found["asked"], key: value}
        forged = {**found, "asked": asked, "stability": []}
        out.write_text(json.dumps(forged))
        assert main(["check", problem, str(out)]) == (2 if "asked." in line else 1)
        assert line in capsys.readouterr().err
        if "asked." in line:
            assert main(["plan", "--again", str(out)]) == 2
            assert line in capsys.readouterr().err


def test_options_that_are_given_again_count_even_if_they_are_the_usual_ones(
    small: Path, tmp_path: Path
) -> None:
    out, again = tmp_path / "plan.json", tmp_path / "again.json"
    options = ("--for", "none", "--top", "3", "--schedule", "1f1b", "--time-limit", "9")
    found = answer(str(small / "problem.yaml"), out, *options)
    for given, asked in (
        ([], {}),
        (["--top", "1", "--schedule", "zb-h1"], {"top": None, "schedule": "zb-h1"}),
    ):
        assert main(["plan", "--again", str(out), "--out", str(again), *given]) == 0
        left = {**found["asked"], **asked}
        expected = {key: value for key, value in left.items() if value is not None}
        assert json.loads(again.read_text())["asked"] == expected
