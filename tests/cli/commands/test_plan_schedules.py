"""``hetopt plan --schedule auto``: one answer over all schedules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetopt.cli import main
from hetopt.problem.training.choices import SCHEDULES
from hetopt.results.per_schedule import ScheduleBound
from hetopt.results.result import Result
from hetopt.solvers.registry import solver as solver_of
from tests.cli.conftest import SMALL
from tests.oracle.instances import ONE_CHUNK
from tests.schemas import ensure_fits

#: Three clusters, the one in the middle behind an uplink.
SHARED = SMALL.replace(
    "links:",
    """\
  - {name: third, accelerator: A40, nodes: 1, devices_per_node: 1, uplink: 10 Gbps,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
links:""",
)

#: Schedules that are not compared in closed form.
BLOCKS = ("v-half", "v-min")


@pytest.fixture
def problem(tmp_path: Path) -> str:
    path = tmp_path / "problem.yaml"
    path.write_text(SMALL)
    return str(path)


def plan(problem: str, *options: str, out: Path) -> dict[str, object]:
    asked = ["plan", problem, "--solver", "dp", "--jobs", "1", "--out", str(out)]
    assert main([*asked, *options]) == 0
    data: dict[str, object] = json.loads(out.read_text())
    ensure_fits(data, "result")
    return data


def schedules_of(data: dict[str, object]) -> list[ScheduleBound]:
    return list(Result.from_json(data).schedules)


def time_of(data: dict[str, object]) -> float:
    value = data["closed_form_s"]
    assert isinstance(value, float)
    return value


@pytest.mark.slow
def test_it_is_the_best_of_one_run_for_each(
    problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plan.json"
    best = plan(problem, "--schedule", "auto", out=out)
    printed = " ".join(capsys.readouterr().out.split())
    # zb-v, interleaved-1f1b twice, h-1f1b with two more epsilons
    number = len(ONE_CHUNK) + 1 + 4
    assert f": proven optimal over {number} schedules; times off by" in printed
    assert "schedule status best plan lower bound" in printed
    assert main(["check", problem, str(out)]) == 0
    assert main(["simulate", problem, str(out)]) == 0
    alone = [
        plan(problem, "--schedule", name, out=tmp_path / "one.json")
        for name in (*ONE_CHUNK, "zb-v")
    ]
    chunks = ["--schedule", "interleaved-1f1b", "--chunks", "2"]
    alone.append(plan(problem, *chunks, out=tmp_path / "one.json"))
    for epsilon in ("0.1", "0.01"):
        chosen = tmp_path / "chosen.yaml"
        settings = f"seq_len: 1024, schedule: h-1f1b, warmup_epsilon: {epsilon}"
        chosen.write_text(SMALL.replace("seq_len: 1024", settings))
        alone.append(plan(str(chosen), out=tmp_path / "one.json"))
    assert time_of(best) == min(map(time_of, alone))


def test_only_what_the_launcher_runs(
    problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(problem).write_text(
        SMALL.replace("vocab: 32000", "vocab: 32000, tied: false").replace(
            "seq_len: 1024", "seq_len: 1024, schedule: auto"
        )
    )
    out = tmp_path / "plan.json"
    found = plan(problem, "--schedule", "auto", "--for", "hetu", "-v", out=out)
    printed = " ".join(capsys.readouterr().out.split())
    assert "of the plans that hetu can run" in printed
    assert "hetu does not run it" in printed
    schedules = schedules_of(found)
    searched = [x.schedule for x in schedules if x.status != "passed-over"]
    assert searched == ["1f1b"]
    launch = found["launch"]
    assert isinstance(launch, dict)
    assert launch["proven"]
    assert launch["schedule"] in SCHEDULES
    anywhere = plan(problem, "--schedule", "auto", out=tmp_path / "any.json")
    assert launch["closed_form_s"] == anywhere["closed_form_s"]
    assert main(["check", problem, str(out)]) == 0


def test_what_cannot_be_searched_is_named(
    problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(problem).write_text(SHARED)
    found = plan(problem, "--schedule", "auto", "-v", out=tmp_path / "plan.json")
    left = {x.schedule for x in schedules_of(found) if x.status == "unknown"}
    assert left == {"1f1b-batched", "1f1b-blocking"}
    assert found["status"] == "feasible"
    printed = " ".join(capsys.readouterr().out.split())
    assert "Not searched, and so left to the bound of their device time" in printed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--certificate", "proof.json", "--relax", "p4"],
            "--certificate: covers schedules with chunks or weight gradients only",
        ),
        (["--table", "table.json"], "--table: has no rows for other schedules"),
        (["--blocking", "1"], "--blocking: goes with --schedule 1f1b-blocking a"),
        (
            ["--solver", "uniap"],
            "--schedule: is auto, but solver uniap plans only gpipe",
        ),
    ],
)
def test_what_does_not_go_with_it_is_one_line(
    options: list[str],
    said: str,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plan", problem, "--schedule", "auto", *options]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert "\n" not in error


def test_no_plan_is_an_answer(problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(problem).write_text(SMALL.replace("nodes: 1,", "nodes: 1, memory: 1.8 GB,"))
    asked = ["plan", problem, "--schedule", "auto", "--solver", "dp", "--json"]
    assert main(asked) == 1
    found = json.loads(capsys.readouterr().out)
    ensure_fits(found, "result")
    others = [each for each in schedules_of(found) if each.schedule not in BLOCKS]
    assert {each.status for each in others} == {"infeasible"}


def test_chunks_to_try(
    problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--schedule", "auto", "--chunks"]
    found = plan(problem, *asked, "1,2", out=tmp_path / "plan.json")
    assert [x.chunks for x in schedules_of(found) if x.chunks > 1] == [2]
    capsys.readouterr()
    for words, said in (
        ([*asked, "1"], "--chunks: is 1, which all other schedules have"),
        ([*asked, "2,2"], "'2,2' has a number twice"),
        ([*asked, "two"], "'two' is not a whole number of at least 1"),
        (["--schedule", "interleaved-1f1b", "--chunks", "2,4"], "has 2 numbers"),
        (["--schedule", "interleaved-1f1b"], "--chunks: is missing: --schedule inter"),
        (
            ["--schedule", "1f1b", "--chunks", "2"],
            "--chunks: is 2 with schedule 1f1b, expected 1, or schedule interleaved-1f",
        ),
    ):
        try:
            code = main(["plan", problem, *words])
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        assert code == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("training", "units", "options", "said"),
    [
        ("", [3, 3], ["--schedule", "zb-v"], "sums to 6, expected 3 pairs"),
        (
            "",
            [3, 3],
            ["--schedule", "interleaved-1f1b", "--chunks", "2"],
            "sums to 6, expected a chunk's 4 units",
        ),
        (
            ", schedule: zb-v",
            [2, 1],
            ["--schedule", "1f1b"],
            "sums to 3, expected the model's 6 units",
        ),
        (
            ", schedule: interleaved-1f1b, chunks: 2",
            [2, 2],
            ["--chunks", "4"],
            "sums to 4, expected a chunk's 3 units",
        ),
    ],
)
def test_pinned_units_are_those_of_the_schedule_asked_for(
    training: str,
    units: list[int],
    options: list[str],
    said: str,
    problem: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = SMALL.replace("seq_len: 1024", f"seq_len: 1024{training}")
    Path(problem).write_text(f"{text}pin: {{units: {units}}}\n")
    out = tmp_path / "plan.json"
    assert main(["plan", problem, *options, "--out", str(out)]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith(f"{problem}: pin.units: {said}")
    assert "\n" not in error
    assert not out.exists()


@pytest.mark.slow
def test_schedules_that_pinned_units_do_not_fit_are_named(
    problem: str, tmp_path: Path
) -> None:
    Path(problem).write_text(f"{SMALL}pin: {{units: [3, 3]}}\n")
    out = tmp_path / "plan.json"
    passed = {
        (x.schedule, x.chunks): x.reason or ""
        for x in schedules_of(plan(problem, "--schedule", "auto", out=out))
        if x.status == "passed-over" and x.schedule not in BLOCKS
    }
    assert set(passed) == {
        ("zb-v", 1),
        ("interleaved-1f1b", 2),
        ("interleaved-1f1b", 4),
    }
    assert all(why.startswith("pin.units: sums to 6") for why in passed.values())
    assert main(["check", problem, str(out)]) == 0


@pytest.mark.parametrize("options", [[], ["--for", "hetu"]])
def test_the_schedule_of_the_file_need_not_fit_the_model(
    options: list[str], problem: str, tmp_path: Path
) -> None:
    text = SMALL.replace("vocab: 32000", "vocab: 32000, tied: false").replace(
        "seq_len: 1024", "seq_len: 1024, schedule: interleaved-1f1b, chunks: 3"
    )
    Path(problem).write_text(text)
    assert main(["plan", problem]) == 2
    out = tmp_path / "plan.json"
    found = plan(problem, "--schedule", "auto", *options, out=out)
    assert found["status"] == "optimal"
    own = schedules_of(found)[0]
    assert (own.schedule, own.chunks) == ("interleaved-1f1b", 3)
    assert own.status == "passed-over"
    assert own.reason is not None
    if not options:
        assert own.reason.startswith("training.chunks: is 3, but the model's 4 unit")
    assert main(["check", problem, str(out)]) == 0


def test_no_schedule_fits(problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = SMALL.replace(
        "seq_len: 1024", "seq_len: 1024, schedule: interleaved-1f1b, chunks: 3"
    )
    Path(problem).write_text(f"{text}pin: {{units: [9]}}\n")
    assert main(["plan", problem, "--schedule", "auto"]) == 2
    error = capsys.readouterr().err.strip()
    assert "training.chunks: is 3, but the model's 4 units" in error
    assert "\n" not in error


INSIDE = "is 3, but the model's 4 units between embedding and head cannot be divided"
THREE = ", schedule: interleaved-1f1b, chunks: 3"
TWO = ", schedule: interleaved-1f1b, chunks: 2"


@pytest.mark.parametrize(
    ("training", "command", "said"),
    [
        (THREE, "plan FILE", f"FILE: training.chunks: {INSIDE}"),
        (THREE, "table FILE", f"FILE: training.chunks: {INSIDE}"),
        (THREE, "explain FILE", f"FILE: training.chunks: {INSIDE}"),
        (THREE, "compare FILE --out compared", f"FILE: training.chunks: {INSIDE}"),
        (TWO, "plan FILE --chunks 3", f"--chunks: {INSIDE}"),
        (TWO, "whatif FILE --chunks 3 --drop-each", f"--chunks: {INSIDE}"),
        ("", "whatif FILE --chunks 3 --drop-each", "--chunks: is 3 with schedule virt"),
        (
            TWO,
            "plan FILE --solver uniform",
            "FILE: training.schedule: solver uniform does not support several chunks "
            "per stage (interleaved-1f1b): use auto",
        ),
        (
            "",
            "plan FILE --solver uniform --schedule interleaved-1f1b --chunks 2",
            "--schedule: solver uniform does not support several chunks per stage",
        ),
        (
            TWO,
            "formulate FILE --p 2 --q 2 --formulation miqp --out out.lp",
            "FILE: training.chunks: is 2, and miqp has one chunk a stage: use cp-sat",
        ),
        (
            f"{TWO}}}\npin: {{cuts: [2, 3, 4, 6]",
            "formulate FILE --p 2 --q 2 --formulation intervals --out out.lp",
            "FILE: pin.cuts: fixes where chunks end, which no program does",
        ),
    ],
)
def test_refused_chunks_are_named_where_they_are_asked_for(
    training: str,
    command: str,
    said: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(problem).write_text(SMALL.replace("seq_len: 1024", f"seq_len: 1024{training}"))
    assert main([problem if word == "FILE" else word for word in command.split()]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith(said.replace("FILE", problem))
    assert "\n" not in error
    if INSIDE in said:
        assert error.endswith("equal parts: expected 2, or another schedule")


def test_chunks_of_a_plan_are_named_by_its_file(
    problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plan.json"
    asked = ["--schedule", "interleaved-1f1b", "--chunks", "2"]
    data = plan(problem, *asked, out=out)
    found = data["plan"]
    assert isinstance(found, dict)
    for schedule, chunks, said in (
        ("interleaved-1f1b", 3, f"chunks: {INSIDE}"),
        ("1f1b", 2, "plan.chunks: is 2 with schedule 1f1b, expected 1"),
    ):
        found |= {"schedule": schedule, "chunks": chunks}
        out.write_text(json.dumps(data))
        capsys.readouterr()
        assert main(["check", problem, str(out)]) == 2
        assert capsys.readouterr().err.startswith(f"{out}: {said}")


@pytest.mark.parametrize("solver", ["dfs", "metis"])
def test_a_heuristic_of_a_wider_space_names_it(
    problem: str, tmp_path: Path, solver: str
) -> None:
    out = tmp_path / "plan.json"
    asked = ["plan", problem, "--schedule", "auto", "--solver", solver, "--jobs", "1"]
    assert main([*asked, "--out", str(out)]) == 0
    assert json.loads(out.read_text())["relaxed"] == list(
        solver_of(solver).space.relaxed
    )
    assert main(["check", problem, str(out)]) == 0


@pytest.mark.parametrize("schedule", ["1f1b-blocking", "1f1b-batched"])
def test_blocked_transfers_relax_to_the_plans_that_keep_all(
    problem: str, tmp_path: Path, schedule: str
) -> None:
    """Without P3, boundaries share links, which these schedules cannot."""
    out = tmp_path / "plan.json"
    asked = ["plan", problem, "--schedule", schedule, "--jobs", "1", "--out", str(out)]
    times = []
    for more in ([], ["--relax", "p3"], ["--relax", "p3", "--pipelines", "2"]):
        assert main([*asked, *more]) == 0
        times.append(json.loads(out.read_text())["iteration_time_s"])
        assert main(["check", problem, str(out)]) == 0
    assert times[1] == times[0]
    assert times[2] <= times[0]


def test_a_certificate_of_them_is_that_of_several_problems_or_refused(
    problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, proof = tmp_path / "plan.json", tmp_path / "proof.json"
    asked = ["plan", problem, "--schedule", "1f1b-blocking", "--relax", "p3"]
    asked += ["--jobs", "1", "--out", str(out), "--certificate", str(proof)]
    assert main(asked) == 2
    expected = "--certificate: does not cover 1f1b-blocking with p3 relaxed"
    assert capsys.readouterr().err.startswith(expected)
    assert main([*asked, "--pipelines", "2"]) == 0
    assert main(["verify", problem, str(out), str(proof)]) == 0
