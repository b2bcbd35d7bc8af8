"""``hetopt forest evaluate``, and plans made from a profile."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path

import pytest

from hetopt.base.machine_code import kept_folder
from hetopt.cli import main
from hetopt.cost.profiles.file import write_profile
from hetopt.cost.sources import evaluation
from hetopt.cost.sources.evaluation import SPLITS
from hetopt.errors import InputError
from hetopt.report.drawing.bar import ShownProgress
from tests.cli.conftest import SMALL, RunHetopt
from tests.cost.profiling import make_profile

UNITS = ("layer", "attention-core")
FILES = [
    "evaluation.json",
    "evaluation.txt",
    "predicted-versus-measured.png",
    "predicted-versus-measured.svg",
    "predictions.csv",
    "scores.csv",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``profile.csv`` and problems that name it."""
    folder = tmp_path_factory.mktemp("forest")
    write_profile(
        str(folder / "profile.csv"),
        make_profile(
            UNITS, hidden=(512, 1024), microbatch=(1, 4), accelerator="A100-80GB"
        ),
    )
    problem = SMALL.replace("seq_len: 1024", "seq_len: 512") + (
        "latency: {fast: profile.csv}\n"
    )
    (folder / "problem.yaml").write_text(problem)
    wide = problem.replace("hidden: 1024, heads: 8", "hidden: 4096, heads: 32")
    wide += "pin: {clusters: {slow: {stages: 0}}}\n"
    (folder / "wide.yaml").write_text(wide)
    return folder


@pytest.mark.slow
def test_evaluate_writes_tables_data_and_pictures(
    folder: Path, run_process: RunHetopt
) -> None:
    done = run_process("forest", "evaluate", "profile.csv", "--out", "out", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    for text in ("80/20", "unseen (c, t)", "larger batch", "repeat noise", "verdict"):
        assert text in done.stdout
    out = folder / "out"
    assert sorted(path.name for path in out.iterdir()) == FILES
    data = json.loads((out / "evaluation.json").read_text())
    assert data["schema"] == "hetopt-forest-evaluation/2"
    assert data["scores"][0]["method"] == "forest"
    assert data["noise"]["median"] > 0
    assert (out / FILES[2]).read_bytes().startswith(b"\x89PNG")
    svg = (out / FILES[3]).read_text()
    assert "<svg" in svg
    assert "predicted, ms" in svg
    with open(out / "predictions.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(
        score["judged"] for score in data["scores"] if score["method"] == "forest"
    )
    assert float(rows[0]["forest_s"]) > 0


def cache(folder: Path) -> str:
    """Return a folder as a cache without predictions, but with the machine code."""
    (folder / "hetopt").mkdir(exist_ok=True)
    numba = folder / "hetopt" / "numba"
    if not numba.is_symlink():
        numba.symlink_to(kept_folder())
    return str(folder)


@pytest.mark.slow
def test_a_plan_from_a_profile(
    folder: Path, tmp_path: Path, run_process: RunHetopt
) -> None:
    def run(*arguments: str, cwd: Path = folder) -> tuple[int, str, str]:
        done = run_process(*arguments, cwd=cwd, XDG_CACHE_HOME=cache(tmp_path))
        return done.returncode, done.stdout, done.stderr

    code, printed, warned = run("plan", "problem.yaml", "--out", "plan.json", "--json")
    assert code == 0
    assert warned.startswith("warning: cluster 'fast': 6 of 9 shapes that were compar")
    kinds = json.loads(printed)["table_kinds"]
    assert kinds == {"fast": "measured", "slow": "operators"}
    # The same problem, whatever folder it is named from, and from the cache.
    problem = str(folder / "problem.yaml")
    code, _, _ = run("check", problem, str(folder / "plan.json"), cwd=tmp_path)
    assert code == 0
    assert list(tmp_path.glob("hetopt/forest/*.npz"))


@pytest.mark.slow
def test_a_plan_outside_its_profile_is_warned_about(
    folder: Path, tmp_path: Path, run_process: RunHetopt
) -> None:
    done = run_process("plan", "wide.yaml", cwd=folder, XDG_CACHE_HOME=cache(tmp_path))
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("warning: cluster 'fast': the plan uses shapes outside")
    assert "hidden size 4096, measured 512 to 1024" in line
    assert line.endswith("measure them with `hetopt profile --for wide.yaml`")


@pytest.mark.slow
def test_a_profile_of_another_device_is_warned_about(
    folder: Path, tmp_path: Path, run_process: RunHetopt
) -> None:
    text = (folder / "problem.yaml").read_text()
    other = text.replace("{fast: profile.csv}", "{slow: profile.csv}")
    (folder / "other.yaml").write_text(other)
    done = run_process("plan", "other.yaml", cwd=folder, XDG_CACHE_HOME=cache(tmp_path))
    assert done.returncode == 0
    assert done.stderr.startswith("warning: cluster 'slow': its latencies come from")
    assert "profile.csv of A100-80GB, not of " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("forest",), "hetopt forest: the following arguments are required: evaluate"),
        (("forest", "evaluate", "none.csv"), "none.csv: no such file"),
        (("forest", "evaluate", "problem.yaml"), "problem.yaml: schema: the header"),
        (
            ("forest", "evaluate", "profile.csv", "--out", "profile.csv"),
            "profile.csv: is a file, expected a folder",
        ),
    ],
)
def test_mistakes_are_one_line(
    folder: Path, run_hetopt: RunHetopt, arguments: tuple[str, ...], message: str
) -> None:
    done = run_hetopt(*arguments, cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


def test_no_folder_without_a_profile(tmp_path: Path, run_hetopt: RunHetopt) -> None:
    arguments = ("forest", "evaluate", "missing.csv", "--out", "scores")
    done = run_hetopt(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert not (tmp_path / "scores").exists()


def test_evaluating_says_what_it_does_where_there_is_no_terminal(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def judge(rows: object, split: str) -> None:
        time.sleep(0.1)
        if split != SPLITS[0]:
            # The second split: enough.
            raise InputError("stop", file="profile.csv")

    monkeypatch.setattr(evaluation, "_judged", judge)
    monkeypatch.setattr(ShownProgress, "EVERY_S", 0.03)
    asked = ["forest", "evaluate", str(folder / "profile.csv")]
    assert main(asked) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "judging forests, 0 s: 80/20"
    assert said[-2].startswith("judging forests, 0 s: unseen (c, t)")
