"""``init``, ``catalog`` and ``schema``."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from hetopt.cli import main
from hetopt.export.registry import limited_names
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


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("launcher", limited_names())
def test_a_launcher_runs_what_is_planned_for_its_example(
    launcher: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--for", launcher]) == 0
    # As many plans as there are, up to ten: it runs each of them.
    search = ["--objective", "closed", "--jobs", "1", "--top", "10"]
    assert main(["plan", "problem.yaml", *search, "--out", "plan.json"]) == 0
    there = ["problem.yaml", "plan.json", "--to", launcher, "--top", "10"]
    assert main(["export", *there, "--out", "bundle"]) == 0
    assert not list(Path("bundle").rglob("LOSSY.md"))


@pytest.mark.parametrize(
    ("launcher", "said"),
    [
        ("megatorn", "--for: there is no launcher 'megatorn' with limits of its own ("),
        ("slurm", "it starts any plan: leave --for out"),
    ],
)
def test_an_example_is_for_a_launcher_with_limits(
    launcher: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--for", launcher]) == 2
    assert said in capsys.readouterr().err
    assert not Path("problem.yaml").exists()


def test_catalog_says_what_each_problem_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog"]) == 0
    printed = capsys.readouterr().out
    lines = {line.split()[0]: line for line in printed.splitlines() if line.strip()}
    assert lines["hetauto-exp1"].endswith(
        " HetAuto, exp1 (Table 2, Section 7.2): 32 A100 and 32 Ascend A2"
    )
    for name in problem_files():
        assert len(lines[name].split(maxsplit=1)[1]) > 20


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
        "problem table plan result certificate certificate-tree comparison "
        "explanation simulation measured whatif front reasons replan"
    )
    assert list(together) == expected.split()
    for name, schema in together.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert main(["schema", name]) == 0
        assert json.loads(capsys.readouterr().out) == schema
