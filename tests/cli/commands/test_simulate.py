"""``hetopt simulate``: one iteration, in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from hetopt.cli import main
from hetopt.report.report_schemas import SIMULATION


def test_json_says_what_the_report_says(
    planned: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(planned)
    assert main(["simulate", "problem.yaml", "plan.json", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(SIMULATION)
    jsonschema.validate(data, SIMULATION)
    result = json.loads(Path("plan.json").read_text("utf-8"))
    assert data["problem_digest"] == result["plan"]["problem_digest"]
    assert data["iteration_time_s"] == pytest.approx(result["iteration_time_s"])
    assert data["closed_form_s"] == pytest.approx(result["closed_form_s"])
    (pipeline,) = result["plan"]["pipelines"]
    assert [stage["cluster"] for stage in data["stages"]] == [
        stage["cluster"] for stage in pipeline["stages"]
    ]
    for stage in data["stages"]:
        assert 0 <= stage["first_forward_s"] < stage["last_backward_s"]
        assert stage["busy_s"] + stage["idle_share"] * data["iteration_time_s"] == (
            pytest.approx(data["iteration_time_s"])
        )
    path = data["critical_path"]
    assert sum(path["duration_s"].values()) == pytest.approx(data["iteration_time_s"])

    assert main(["simulate", "problem.yaml", "plan.json"]) == 0
    text = capsys.readouterr().out
    assert f"{data['iteration_time_s']:.6f} s" in text
    assert f"{path['events']} events: " in text
    for kind, time_s in path["duration_s"].items():
        assert f"{kind} {time_s:.4f} s" in text
