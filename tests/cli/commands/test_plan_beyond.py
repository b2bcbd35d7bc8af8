"""An MFU above 100%: a reason stands beside it, and a warning is given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetopt.cli import main

WRONG = "latencies (fast operators) are shorter than peak_flops permits"


@pytest.fixture
def quick(planned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with a problem, and a table whose times are a hundredth."""
    monkeypatch.chdir(tmp_path)
    Path("problem.yaml").write_text((planned / "problem.yaml").read_text())
    assert main(["table", "problem.yaml", "--out", "table.json"]) == 0
    table = json.loads(Path("table.json").read_text())
    for part in table["slices"]:
        for cluster in part["clusters"]:
            for strategy in cluster["strategies"]:
                for key in ("forward_ns", "backward_ns"):
                    times = strategy[key]
                    strategy[key] = {
                        kind: max(1, n // 100) for kind, n in times.items()
                    }
    Path("table.json").write_text(json.dumps(table))
    return "table.json"


def test_the_report_says_why_and_standard_error_warns(
    quick: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--solver", "dp", "--objective", "closed", "--jobs", "1"]
    capsys.readouterr()
    arguments = ["plan", "problem.yaml", "--table", quick, *options]
    assert main([*arguments, "--out", "plan.json"]) == 0
    found = json.loads(Path("plan.json").read_text())
    assert max(found["mfu"], found["mfu_used"]) > 1
    out, err = capsys.readouterr()
    assert WRONG in " ".join(out.split())
    assert f"warning: the MFU is above 100%, which no device reaches: {WRONG}" in err
    factor = max(found["mfu"], found["mfu_used"])
    likely = f"an accelerator's peak_flops is too low, by a factor of {factor:.2f}"
    assert f"most likely {likely} at least" in err
    files = ["problem.yaml", "plan.json", "--table", quick]
    assert main(["report", *files, "--out", "page.html"]) == 0
    assert WRONG in Path("page.html").read_text()
    # Whatever is printed.
    assert main([*arguments, "--json"]) == 0
    assert "warning: the MFU is above 100%" in capsys.readouterr().err


def test_none_is_given_below(planned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = str(planned / "problem.yaml")
    assert main(["plan", problem, "--solver", "dp", "--objective", "closed"]) == 0
    out, err = capsys.readouterr()
    assert "MFU" in out
    assert "above 100%" not in out + err
