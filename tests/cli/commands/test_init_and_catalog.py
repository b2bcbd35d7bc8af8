"""``init``, ``catalog`` and ``schema``."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from hetopt.cli import main
from hetopt.problem.catalogue import accelerators, model_presets, problem_files


def test_the_example_is_written_once_and_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    assert "hetopt plan problem.yaml" in capsys.readouterr().out
    assert main(["table", "problem.yaml", "--out", "table.json"]) == 0
    assert main(["init"]) == 2
    assert main(["init", "--out", "-"]) == 0


def test_catalog_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first_words = {line.split()[0] for line in lines if line.split()}
    assert set(accelerators()) <= first_words
    assert set(model_presets()) <= first_words
    assert set(problem_files()) <= first_words
    assert "cp-sat" in first_words


def test_schemas_alone_and_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    together = json.loads(capsys.readouterr().out)
    expected = (
        "problem table plan result certificate comparison explanation simulation "
    )
    expected += "measured whatif front reasons replan"
    assert list(together) == expected.split()
    for name, schema in together.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert main(["schema", name]) == 0
        assert json.loads(capsys.readouterr().out) == schema
