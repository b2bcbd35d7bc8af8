"""``schedule: auto`` in a problem: the best of all schedules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hetopt
from hetopt.cli import main
from hetopt.problem.digest import problem_digest
from hetopt.problem.reading import read_problem, read_problem_text
from hetopt.problem.training.choices import ANY, SCHEDULES
from hetopt.solvers.search.branchings.schedules import schedule_variants
from tests.cli.conftest import DP, SMALL, answer

AUTO = SMALL.replace("seq_len: 1024", "seq_len: 1024, schedule: auto")

SHORT = """\
model: {layers: 2, hidden: 512, heads: 4, ffn: 512, vocab: 4000, tied: true}
clusters:
  - {name: a, accelerator: L40S, nodes: 1, devices_per_node: 1,
     inter_node: {bandwidth: 1 Gbps}}
training: {global_batch: 4, seq_len: 128, schedule: auto, zero: 0, recompute: none}
"""


@pytest.fixture
def problem(tmp_path: Path) -> str:
    path = tmp_path / "problem.yaml"
    path.write_text(AUTO)
    return str(path)


@pytest.mark.slow
def test_it_is_what_the_options_ask_for(problem: str, tmp_path: Path) -> None:
    """Every way to ask finds the same, and every command reads the plan."""
    out, one = tmp_path / "plan.json", tmp_path / "one.yaml"
    found = answer(problem, out)
    one.write_text(SMALL)
    for name in ("auto", "best"):
        same = answer(str(one), tmp_path / "same.json", "--schedule", name)
        for field in ("plan", "over", "claims", "lower_bound_s", "status"):
            assert same[field] == found[field]
        plan = hetopt.plan(str(one), schedule=name, solver="dp", jobs=1).best
        assert plan is not None
        assert plan.closed_form_s == found["closed_form_s"]
    best = found["plan"]
    assert isinstance(best, dict)
    # The plan is of the problem under its schedule, which a file may name instead.
    one.write_text(AUTO.replace("auto", best["schedule"]))
    for name in (problem, str(one)):
        assert main(["check", name, str(out)]) == 0
        assert main(["simulate", name, str(out)]) == 0
    assert main(["explain", problem, str(out), "--jobs", "1"]) == 0
    bundle = ["--to", "torchrun", "--allow-lossy", "--out", str(tmp_path / "bundle")]
    assert main(["export", problem, str(out), *bundle]) == 0


def test_a_named_schedule_replaces_it(problem: str, tmp_path: Path) -> None:
    found = answer(problem, tmp_path / "plan.json", "--schedule", "gpipe")
    assert "over" not in found
    assert found["plan"]["schedule"] == "gpipe"


def test_chunks_and_epsilon_are_for_the_schedules_that_have_them() -> None:
    more = "schedule: auto, chunks: 3, warmup_epsilon: 0.1"
    problem = read_problem_text(AUTO.replace("schedule: auto", more))
    variants = schedule_variants(problem)
    assert {each.schedule for each in variants} == set(SCHEDULES)
    assert [each.chunks for each in variants if each.chunks > 1] == [3, 2, 4]
    assert {each.warmup_epsilon for each in variants} == {None, 0.1}
    alone = SMALL.replace("seq_len: 1024", "seq_len: 1024, schedule: 1f1b")
    under = problem.under("1f1b")
    assert problem_digest(under) == problem_digest(read_problem_text(alone))
    assert problem_digest(under.under_any()) != problem_digest(under)


def test_units_that_no_schedule_holds(
    problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(problem).write_text(f"{AUTO}pin: {{units: [9]}}\n")
    assert main(["plan", problem]) == 2
    assert "pin.units: sums to 9, expected" in capsys.readouterr().err


def test_reports_fieldit(problem: str) -> None:
    assert f"schedule {ANY}" in str(read_problem(problem))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("table FILE", "FILE: training.schedule: is auto, but this command takes one"),
        (
            "formulate FILE --p 1 --q 1 --out a.proto",
            "FILE: training.schedule: is auto, but this command takes one: name it",
        ),
        ("explain FILE", "FILE: training.schedule: is auto, but this command takes"),
        ("table FILE --schedule auto", "--schedule: is 'auto', expected one of 1f1b"),
    ],
)
def test_what_takes_one_schedule_says_so(
    command: str,
    said: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [problem if word == "FILE" else word for word in command.split()]
    try:
        code = main(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    assert code == 2
    error = capsys.readouterr().err.strip()
    assert said.replace("FILE", problem) in error
    assert "\n" not in error


def test_tables_of_it_are_refused(problem: str) -> None:
    with pytest.raises(hetopt.InputError, match="under one schedule"):
        hetopt.build_table(read_problem(problem))


@pytest.mark.slow
def test_variants_are_searched_over_all(
    problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each variant has the plan that ``hetopt plan`` finds for it."""
    asked = ["whatif", problem, "--set", "training.schedule=gpipe", "--json"]
    assert main([*asked, *DP, "--out", str(tmp_path / "w.json")]) == 0
    capsys.readouterr()
    base, gpipe = json.loads((tmp_path / "w.json").read_text())["rows"]
    best = answer(problem, tmp_path / "plan.json")
    assert base["closed_form_s"] == best["closed_form_s"]
    assert base["problem_digest"] == base["plan"]["problem_digest"]
    alone = answer(problem, tmp_path / "one.json", "--schedule", "gpipe")
    assert gpipe["closed_form_s"] == alone["closed_form_s"]
    capsys.readouterr()
    Path(problem).write_text(SMALL)
    assert main([*asked, *DP, "--schedule", "auto"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [each["closed_form_s"] for each in rows] == [
        best["closed_form_s"],
        alone["closed_form_s"],
    ]


@pytest.mark.slow
def test_a_journal_resumes(problem: str, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    first = answer(problem, tmp_path / "a.json", "--journal", str(journal))
    lines = journal.read_text()
    again = answer(problem, tmp_path / "b.json", "--journal", str(journal))
    assert journal.read_text() == lines
    assert again["plan"] == first["plan"]
    assert again["status"] == first["status"] == "optimal"


@pytest.mark.slow
def test_an_answer_repeats_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, out = tmp_path / "one.yaml", tmp_path / "plan.json"
    problem.write_text(SMALL)
    found = answer(str(problem), out, "--schedule", "best")
    capsys.readouterr()
    assert main(["plan", "--again", str(out), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    for field in ("plan", "over", "asked"):
        assert again[field] == found[field]


def test_certificates_of_short_times_are_verified(tmp_path: Path) -> None:
    # A bound may be two picoseconds below that of each schedule.
    path, out, cert = (str(tmp_path / each) for each in ("p.yaml", "o.json", "c.json"))
    Path(path).write_text(SHORT)
    asked = "--objective", "closed", "--out", out, "--certificate", cert, "--jobs", "1"
    assert main(["plan", path, *asked]) == 0
    assert main(["check", path, out]) == 0
    assert main(["verify", path, out, cert]) == 0
