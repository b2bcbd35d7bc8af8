from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hetopt.cli import main
from hetopt.export.job import Job
from hetopt.export.launcher import Loss
from hetopt.export.torch.launcher import LAUNCHER
from hetopt.plans.plan import Plan
from hetopt.problem.reading import read_problem
from tests.cli.conftest import SMALL


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibrate")
    problem, plan = folder / "problem.yaml", folder / "plan.json"
    problem.write_text(SMALL)
    assert main(["plan", str(problem), "--out", str(plan), "--jobs", "1"]) == 0
    return folder


@pytest.fixture
def planned(once: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with a problem and its plan."""
    monkeypatch.chdir(once)
    return once


def test_the_whole_way(planned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    before = json.loads((planned / "plan.json").read_text())["iteration_time_s"]
    measured = 1.2 * before
    arguments = ["calibrate", "problem.yaml", "plan.json", "--measured"]
    assert main([*arguments, f"{measured!r} s", "--memory", "40 GB"]) == 0
    printed = capsys.readouterr().out
    assert "efficiency of fast: 0." in printed
    assert "40 GB measured" in printed
    assert "name it in the problem (calibration: calibration.yaml)" in printed
    (planned / "mine.yaml").write_text(SMALL + "calibration: calibration.yaml\n")
    assert main(["plan", "mine.yaml", "--out", "again.json", "--jobs", "1"]) == 0
    after = json.loads((planned / "again.json").read_text())["iteration_time_s"]
    assert after <= measured * 1.01
    assert after > before
    capsys.readouterr()
    # A calibrated problem is another problem.
    assert main(["check", "mine.yaml", "plan.json"]) == 2
    # What was corrected is right now, and what the problem names is not written over.
    again = ["calibrate", "mine.yaml", "again.json", "--measured", f"{after} s"]
    assert main(again) == 2
    assert main([*again, "--out", "second.yaml"]) == 0
    assert f"{after:.4g} s measured, {after:.4g} s planned" in capsys.readouterr().out


def test_overheads_are_those_that_were_measured(planned: Path) -> None:
    """The other clusters keep the problem's, however large these are."""
    problem = SMALL.replace("accelerator: A40,", "accelerator: A40, overhead: 30 GB,")
    for name, calibration, memory, expected in (
        ("first", None, ["--memory", "9 GB"], {"fast"}),
        ("again", "first-calibration.yaml", [], {"fast"}),
        ("both", "{overhead: {slow: 29 GB}}", ["--memory", "9 GB"], {"fast", "slow"}),
    ):
        text = problem + (f"calibration: {calibration}\n" if calibration else "")
        (planned / f"{name}.yaml").write_text(text)
        plan = ["plan", f"{name}.yaml", "--out", f"{name}.json", "--jobs", "1"]
        assert main(plan) == 0
        out = f"{name}-calibration.yaml"
        run = ["calibrate", f"{name}.yaml", f"{name}.json", "--measured", "1 s"]
        assert main([*run, *memory, "--out", out]) == 0
        written = yaml.safe_load((planned / out).read_text())
        assert set(written["overhead"]) == expected
        (planned / "next.yaml").write_text(f"{problem}calibration: {out}\n")
        found = {c.name: c.overhead_bytes for c in read_problem("next.yaml").clusters}
        assert found["slow"] == (29 if name == "both" else 30) * 10**9


def test_a_known_reserve_stays(planned: Path) -> None:
    problem = f"{SMALL}calibration: {{reserve: 0.125}}\n"
    (planned / "reserved.yaml").write_text(problem)
    plan = ["plan", "reserved.yaml", "--out", "reserved.json", "--jobs", "1"]
    assert main(plan) == 0
    run = ["calibrate", "reserved.yaml", "reserved.json", "--measured", "1 s"]
    assert main([*run, "--out", "again.yaml"]) == 0
    (planned / "next.yaml").write_text(f"{SMALL}calibration: again.yaml\n")
    assert read_problem("next.yaml").training.reserve == 0.125


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--measured", "6"], "--measured"),
        (["--measured", "6 GB"], "--measured"),
        (["--measured", "0 s"], "is not above 0"),
        (["--measured", "6 s", "--memory", "1"], "--memory"),
        (
            ["--measured", "6 s", "--memory", "500 GB"],
            "--memory: is 500 GB, but the fullest device, of cluster 'fast', has ",
        ),
        (["--measured", "6 s", "--correct", "x"], "--correct"),
        (["--measured", "6 s", "--clusters", "x"], "'x' is not in the plan"),
        (["--measured", "6 s", "--clusters", ""], "'' is not in the plan"),
        (
            ["--measured", "6 s", "--clusters", "fast", "--correct", "bandwidth"],
            "--clusters: says whose efficiency is corrected",
        ),
        ([], "plan.json: has no time: give it by --measured"),
        (["--run", "plan.json"], "--run: 'plan.json' is not PLAN=FILE"),
        (["--run", "=m.json"], "--run: '=m.json' is not PLAN=FILE"),
        (["--measured", "6 s", "--run", "plan.json=none.json"], "none.json: no such"),
        (["--measured", "6 s", "--run", "plan.json=plan.json"], "hetopt-measured/1"),
        (["--measured", "6 s", "--also", "problem.yaml", "plan.json"], "--also"),
        (
            ["--measured", "6 s", "--also", "problem.yaml", "plan.json", "6"],
            "--also: is '6' without a unit",
        ),
        (
            ["--measured", "6 s", "--also", "none.yaml", "plan.json", "6 s"],
            "none.yaml: ",
        ),
        (
            ["--measured", "6 s", "--also", "problem.yaml", "problem.yaml", "6 s"],
            "problem.yaml: is YAML, expected a plan: PROBLEM",
        ),
        (
            [
                *("--measured", "6 s", "--clusters", "x"),
                *("--also", "problem.yaml", "plan.json", "6 s"),
            ],
            "'x' is not in the plans, which use fast",
        ),
    ],
)
def test_what_cannot_be_used(
    planned: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    capsys.readouterr()
    try:
        code = main(["calibrate", "problem.yaml", "plan.json", *options])
    except SystemExit as stop:
        code = int(str(stop.code))
    assert code == 2
    assert message in capsys.readouterr().err


def test_it_is_named_as_the_problem_has_to(
    planned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (planned / "other").mkdir()
    arguments = ["calibrate", "problem.yaml", "plan.json", "--measured", "6 s"]
    for out, named in (
        ("other/c.yaml", "other/c.yaml"),
        ("factors", "{file: factors}"),
        (str(planned / "c.yaml"), str(planned / "c.yaml")),
    ):
        assert main([*arguments, "--out", out]) == 0
        assert f"(calibration: {named})" in capsys.readouterr().out
    (planned / "other" / "problem.yaml").write_text(SMALL)
    arguments[1] = "other/problem.yaml"
    assert main([*arguments, "--out", "c.yaml"]) == 0
    assert "(calibration: ../c.yaml)" in capsys.readouterr().out


def test_bounds_are_said(planned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    arguments = ["calibrate", "problem.yaml", "plan.json", "--measured", "3600 s"]
    assert main([*arguments, "--out", "c.yaml"]) == 0
    assert "at the bound of efficiency (0.25 to 2)" in capsys.readouterr().out
    assert '"fast": 0.25' in (planned / "c.yaml").read_text()
    # One stage on one node uses no network.
    assert main([*arguments, "--correct", "bandwidth"]) == 2
    assert "does not depend on bandwidth" in capsys.readouterr().err


def test_several_runs(planned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run with tp 2 and one with tp 1 correct devices and the links between them."""
    times = []
    for tp in (1, 2):
        text = f"{SMALL}pin: {{microbatches: 1, clusters: {{fast: {{tp: {tp}}}}}}}\n"
        (planned / f"tp{tp}.yaml").write_text(text)
        plan = ["plan", f"tp{tp}.yaml", "--out", f"tp{tp}.json", "--jobs", "1"]
        assert main(plan) == 0
        data = json.loads((planned / f"tp{tp}.json").read_text())
        times.append(f"{1.2 * data['iteration_time_s']!r} s")
    capsys.readouterr()
    first = ["calibrate", "tp1.yaml", "tp1.json", "--measured", times[0]]
    also = ["--also", "tp2.yaml", "tp2.json", times[1], "--out", "both.yaml"]
    assert main([*first, *also]) == 0
    printed = capsys.readouterr().out
    assert "run 2 left out: " in printed
    assert "mean absolute error of runs left out: " in printed
    assert "efficiency of fast: 0.7" in printed
    assert "2 runs, each predicted" in (planned / "both.yaml").read_text()
    assert main([*first, *also[:4], "--out", "tp2.yaml"]) == 2
    assert "tp2.yaml: would replace tp2.yaml" in capsys.readouterr().err
    (planned / "from.yaml").write_text(SMALL + "calibration: both.yaml\n")
    assert main(["plan", "from.yaml", "--out", "from.json", "--jobs", "1"]) == 0
    other = ["--also", "from.yaml", "from.json", "1 s", "--out", "more.yaml"]
    capsys.readouterr()
    assert main([*first, *other]) == 2
    assert "from.yaml: calibration.intra_node: is 1.0" in capsys.readouterr().err
    assert not (planned / "more.yaml").exists()


def test_a_run_that_cannot_tell_is_said(
    planned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{SMALL}pin: {{microbatches: 4, clusters: {{fast: {{tp: 2}}}}}}\n"
    (planned / "tall.yaml").write_text(text)
    assert main(["plan", "tall.yaml", "--out", "tall.json", "--jobs", "1"]) == 0
    capsys.readouterr()
    run = ["calibrate", "tall.yaml", "tall.json", "--measured", "1 s"]
    assert main([*run, "--out", "tall-calibration.yaml"]) == 0
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(
        "warning: this run has only micro-batches of one sequence per replica and has "
        "tp 2 in every stage: add a run with a larger micro-batch and another tp"
    )


def measured(folder: Path, *iterations: float, noise: list[str] | None = None) -> str:
    """Write what `hetopt run` would of the folder's plan; return PLAN=FILE.

    Without noise, what an older hetopt wrote.
    """
    problem = read_problem(str(folder / "problem.yaml"))
    plan = Plan.from_json(json.loads((folder / "plan.json").read_text())["plan"])
    digest = LAUNCHER.launched(Job.of(problem, plan)).plan.digest
    about = {} if noise is None else {"noise": noise}
    stage = {"forward_s": 0.5, "backward_s": 1.0, "sync_s": 0.0, "peak_bytes": 1}
    data = {
        "schema": "hetopt-measured/1",
        "plan_digest": digest,
        "iteration_s": iterations,
        "loss": [9.0] * len(iterations),
        "stages": [stage],
        "boundaries_s": [],
        "memory": "allocated",
        "devices": ["NVIDIA H100"],
        "versions": {"hetopt": "0.1.0", "torch": "2.13", "python": "3.11"},
        "units": None,
        **about,
    }
    (folder / "m.json").write_text(json.dumps(data))
    return "plan.json=m.json"


@pytest.mark.slow
def test_a_measured_run_is_its_median(
    planned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = measured(planned, 9.0, 2.0, 3.0)
    for given in (["--run", run], ["plan.json", "--measured", "3 s"]):
        capsys.readouterr()
        assert main(["calibrate", "problem.yaml", *given, "--out", "c.yaml"]) == 0
        assert "iteration: 3 s measured" in capsys.readouterr().out
    # Beside a time, or another run, it is one of several.
    both = ["plan.json", "--measured", "2.5 s", "--run", run, "--out", "c.yaml"]
    assert main(["calibrate", "problem.yaml", *both]) == 0
    said = capsys.readouterr().out
    assert "run 1: 2.5 s measured" in said
    assert "run 2: 3 s measured" in said


def test_a_noisy_run_does_not_reach_a_bound(
    planned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = "a load of 8.0 on 2 cores"
    run = measured(planned, 3600.0, noise=[noise])
    capsys.readouterr()
    command = ["calibrate", "problem.yaml", "--run", run, "--out", "noisy.yaml"]
    assert main(command) == 2
    assert capsys.readouterr().err == (
        f"m.json: has {noise}, and efficiency of fast would be at its bound of 0.25: "
        "run again on a quiet machine, or calibrate with --force\n"
    )
    assert not (planned / "noisy.yaml").exists()
    assert main([*command[:-1], "forced.yaml", "--force"]) == 0
    said = capsys.readouterr()
    assert "at the bound of efficiency (0.25 to 2)" in said.out
    assert f"warning: m.json has {noise}: factors are as uncertain" in said.err


def test_a_noisy_run_within_bounds_is_used_and_said(
    planned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    time_s = json.loads((planned / "plan.json").read_text())["iteration_time_s"]
    capsys.readouterr()
    for noise in (None, [], ["a load of 5.0 on 2 cores"]):
        run = measured(planned, 1.2 * time_s, 1.21 * time_s, noise=noise)
        command = ["calibrate", "problem.yaml", "--run", run, "--out", "c.yaml"]
        assert main(command) == 0
        said = capsys.readouterr().err
        assert ("m.json has a load of 5.0" in said) == bool(noise)


def test_a_run_on_cpus_says_nothing_of_the_devices(
    planned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    time_s = json.loads((planned / "plan.json").read_text())["iteration_time_s"]
    run = measured(planned, 1.2 * time_s)
    for devices in (["CPU"], ["NVIDIA H100"]):
        data = json.loads((planned / "m.json").read_text())
        (planned / "m.json").write_text(json.dumps({**data, "devices": devices}))
        capsys.readouterr()
        command = ["calibrate", "problem.yaml", "--run", run, "--out", "c.yaml"]
        assert main(command) == 0
        said = capsys.readouterr().err
        assert ("m.json was measured on CPUs" in said) == (devices == ["CPU"])


def test_a_run_of_another_plan_is_refused(
    planned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = measured(planned, 2.0)
    data = json.loads((planned / "m.json").read_text())
    (planned / "m.json").write_text(json.dumps({**data, "plan_digest": "0" * 64}))
    capsys.readouterr()
    assert main(["calibrate", "problem.yaml", "--run", run]) == 2
    assert capsys.readouterr().err == (
        "m.json: plan_digest: is of another plan: name the one that was run\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no run: name PLAN and --measured TIME, or --run PLAN=FILE"),
        (["--measured", "6 s"], "--measured: is the time of PLAN: name it too"),
    ],
)
def test_a_run_has_a_plan_and_a_time(
    planned: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    capsys.readouterr()
    assert main(["calibrate", "problem.yaml", *arguments]) == 2
    assert capsys.readouterr().err == f"{message}\n"


def test_a_plan_that_cannot_run_has_no_run(
    planned: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = measured(planned, 2.0)
    lost = Loss(what="stages that no program has", instead=None)
    unable = replace(LAUNCHER, losses=lambda job: iter([lost]))
    monkeypatch.setattr("hetopt.export.torch.launcher.LAUNCHER", unable)
    capsys.readouterr()
    assert main(["calibrate", "problem.yaml", "--run", run]) == 2
    assert capsys.readouterr().err == (
        "m.json: cannot be of this plan, with stages that no program has\n"
    )
