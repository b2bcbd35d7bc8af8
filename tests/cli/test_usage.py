"""What the user wrote wrongly: one line on standard error, exit code 2."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hetopt.cli import main

FORMULATE = ["formulate", "p.yaml", "--p", "1", "--q", "1"]

WRONG: list[tuple[list[str], str]] = [
    (["plna"], "there is no command 'plna' (did you mean 'plan'?): see hetopt --help"),
    (["frobnicate"], "there is no command 'frobnicate': see hetopt --help"),
    (["--versoin"], "there is no option --versoin (did you mean '--version'?): see"),
    (["forest", "evalute"], "hetopt forest: there is no command 'evalute' (did you"),
    (["plan"], "PROBLEM: is missing: name a problem's file, or an answer to repeat"),
    (
        ["plan", "p.yaml", "--frobnicate"],
        "hetopt plan: there is no option --frobnicate",
    ),
    (["plan", "p.yaml", "--tme-limit", "5"], "(did you mean '--time-limit'?)"),
    (["plan", "--tme-limit=5", "p.yaml"], "there is no option --tme-limit (did you"),
    (["plan", "p.yaml", "plan.json"], "'plan.json' is one argument too many, expected"),
    (
        ["explain", "p.yaml", "--plan", "p.json"],
        "--plan: is gone: write hetopt explain",
    ),
    (["explain", "--plan=p.json", "p.yaml"], "--plan: is gone: write hetopt explain"),
    (["plan", "p.yaml", "--jobs"], "--jobs: expected one argument"),
    (["plan", "p.yaml", "--jobs", "0"], "--jobs: '0' is not a whole number of at"),
    (["plan", "p.yaml", "--jobs", "two"], "--jobs: 'two' is not a whole number"),
    (["plan", "p.yaml", "--top", "0"], "--top: '0' is not a whole number"),
    (["plan", "p.yaml", "--seed", "-1"], "--seed: '-1' is not a whole number"),
    (["plan", "p.yaml", "--seed", "9" * 5000], "--seed: "),
    (["plan", "p.yaml", "--time-limit", "0"], "--time-limit: '0' is not a number of"),
    (["plan", "p.yaml", "--time-limit", "-3"], "--time-limit: '-3' is not a number"),
    (["plan", "p.yaml", "--time-limit", "nan"], "--time-limit: 'nan' is not a num"),
    (["plan", "p.yaml", "--time-limit", "inf"], "--time-limit: 'inf' is not a num"),
    (["plan", "p.yaml", "--time-limit", "1h"], "--time-limit: '1h' is not a number"),
    (
        ["plan", "p.yaml", "--schedule", "zigzag"],
        "--schedule: is 'zigzag', expected one of 1f1b",
    ),
    (["plan", "p.yaml", "--solver", "abacus"], "--solver: there is no solver 'abacus'"),
    (["plan", "p.yaml", "--sol", "cp-sat"], "no option --sol (did you mean"),
    (["plan", "missing.yaml"], "missing.yaml: no such file, and no problem of this"),
    (["plan", "p.yaml", "--out", "no/plan.json"], "no/plan.json: its folder does not"),
    (["plan", "p.yaml", "--out", "."], ".: is a folder, expected a file name"),
    (["plan", "p.yaml", "--out", "p.yaml/x"], "p.yaml/x: its folder does not exist"),
    (["plan", "p.yaml", "--table", "no.json"], "no.json: "),
    (["plan", "p.yaml", "--table", "p.yaml"], "p.yaml:1: "),
    (["plan", "."], ".: "),
    (["plan", "list.yaml"], "list.yaml:1: "),
    (["table", "p.yaml", "--out", "no/table.json"], "no/table.json: its folder does"),
    (
        ["init", "--out", "no/problem.yaml"],
        "no/problem.yaml: its folder does not exist",
    ),
    (["init", "--out", "p.yaml"], "p.yaml: exists already and is not replaced"),
    (["schema", "proof"], "NAME: is 'proof', expected one of"),
    (["check", "p.yaml"], "the following arguments are required: PLAN"),
    (["plan", "none.json"], "none.json:1: schema: is 'hetopt-result/1', which hetopt"),
    (["plan", "pp.yaml"], "(did you mean 'p.yaml'?)"),
    (["check", "none.json", "p.yaml"], "p.yaml: is YAML, expected a plan: PROBLEM st"),
    (["check", "p.yaml", "p.json"], "p.json: is a problem, expected a plan: PROBLEM"),
    (["compare", "p.yaml", "--out", "p.yaml"], "p.yaml: is a file, expected a folder"),
    (["export", "p.yaml", "--t", "megatron"], "there is no option --t (did you mean"),
    (["forest"], "hetopt forest: the following arguments are required: evaluate"),
    (["check", "p.yaml", "missing.json"], "missing.json: no such file"),
    (["check", "p.yaml", "."], ".: is a directory, expected a plan"),
    (["check", "p.yaml", "broken.json"], "broken.json:2: is not JSON: "),
    (["check", "p.yaml", "list.yaml"], "list.yaml: is not a JSON object"),
    (["check", "p.yaml", "bytes.json"], "bytes.json:1: byte 0x"),
    (["check", "p.yaml", "digits.json"], "digits.json:1: has a number of more than"),
    (["check", "p.yaml", "deep.json"], "deep.json: is nested too deeply"),
    (["check", "p.yaml", "none.json"], "none.json: plan: there is no plan (its st"),
    (["check", "p.yaml", "text.json"], "text.json: schema: is missing"),
    (["simulate", "p.yaml", "empty.json"], "empty.json: plan: there is no plan"),
    (["formulate", "p.yaml", "--p", "1"], "the following arguments are required"),
    ([*FORMULATE, "--out", "model.txt"], "model.txt: --out: the name does not end in"),
    ([*FORMULATE, "--q", "3", "--out", "m.proto"], "--q: 3 is not possible, expected"),
    ([*FORMULATE, "--p", "5", "--out", "m.proto"], "--p: 5 is not possible, expected"),
    ([*FORMULATE, "--formulation", "lp", "--out", "m.proto"], "is 'lp', expected"),
]

FILES = {
    "list.yaml": b"[1, 2]\n",
    "broken.json": b'{"plan":\n  oops}\n',
    "bytes.json": b"\xff\xfe\x00",
    "digits.json": b'{"plan": ' + b"9" * 5000 + b"}",
    "deep.json": b"[" * 100_000,
    "none.json": b'{"schema": "hetopt-result/1", "plan": null, "status": "infeasible"}',
    "p.json": b'{"model": 1, "clusters": 2, "training": 3}',
    "text.json": b'{"plan": "text"}',
    "empty.json": b"{}",
}


@pytest.fixture
def folder(tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "p.yaml").write_bytes((small / "problem.yaml").read_bytes())
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"), WRONG, ids=[" ".join(a)[:40] for a, _ in WRONG]
)
def test_one_line_and_exit_code_2(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = stop.code  # type: ignore[assignment]
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert message in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    "command",
    [
        "init",
        "plan",
        "check",
        "simulate",
        "table",
        "catalog",
        "schema",
        "formulate",
        "profile",
    ],
)
def test_version_everywhere(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--version"])
    assert stop.value.code == 0
    assert re.fullmatch(r"hetopt \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_a_reader_that_leaves_is_no_error(environment: dict[str, str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "hetopt", "schema"],
        cwd="/",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_a_full_disk_is_one_line(environment: dict[str, str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hetopt", "schema"],
            cwd="/",
            env=environment,
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr == (
        "standard output: cannot be written: No space left on device\n"
    )


def test_output_in_any_encoding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from hetopt.cli.output import emit

    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    emit("λ = 1")
    assert raw.getvalue() == b"? = 1\n"
    monkeypatch.setattr(sys, "stdout", None)
    emit("nobody reads this")


@pytest.mark.parametrize(
    ("options", "schedule"),
    [
        (["--schedule", "1f1b-blocking"], "1f1b-blocking"),
        (["--schedule", "1f1b-blocking", "--blocking", "2"], "1f1b-blocking"),
        (["--schedule", "1f1b-blocking", "--blocking", "1"], "1f1b-batched"),
    ],
)
def test_blocking_says_which_schedule_is_meant(
    options: list[str], schedule: str, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = str(small / "problem.yaml")
    assert main(["plan", problem, *options, "--jobs", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["schedule"] == schedule


def test_blocking_is_for_one_schedule_alone(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = str(small / "problem.yaml")
    assert main(["plan", problem, "--schedule", "1f1b", "--blocking", "1"]) == 2
    assert "--blocking: goes with --schedule 1f1b-blocking" in capsys.readouterr().err
