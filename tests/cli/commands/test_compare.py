"""``hetopt compare`` on a problem that is planned in a moment, and what it refuses."""

from __future__ import annotations

import csv
import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hetopt.cli import main
from hetopt.cli.commands import compare as command
from hetopt.comparing import compare as comparing
from hetopt.comparing.kept_runs import KeptRuns
from hetopt.planning.side_by_side import run_apart
from hetopt.problem.digest import problem_digest
from hetopt.problem.reading import read_problem
from hetopt.report.comparison.comparison import rows
from hetopt.report.comparison.text import conditions
from hetopt.report.drawing.bar import ShownProgress
from tests.cli.conftest import RunHetopt
from tests.report.comparisons import made_run
from tests.schemas import ensure_fits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.planning.side_by_side import Entry, Run
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Status


ESTIMATE = (
    "at most %d runs of %d s: about %d minutes, less for every search that ends sooner"
)


#: The runs that were made, by what was asked.
RUNS: dict[str, Run] = {}


def run_once(problem: Problem, entry: Entry) -> Run:
    """Make no run of the same entry twice."""
    key = f"{problem_digest(problem)} {entry}"
    if key not in RUNS:
        RUNS[key] = run_apart(problem, entry)
    return RUNS[key]


@pytest.fixture(scope="module", autouse=True)
def _made_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "run_apart", run_once)
        yield


@pytest.fixture(scope="module")
def compared(small: Path, run_hetopt: RunHetopt) -> tuple[Path, str]:
    """Return DIR, and what was printed, of a proof, a wider space and a refusal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "warm_up", lambda entry, schedule: 1.5)
        done = run_hetopt(
            *("compare", "problem.yaml", "--solvers", "cp-sat,dfs,uniap"),
            *("--time-limit", "60", "--jobs", "1", "--out", "new/folder"),
            cwd=small,
        )
    # cp-sat, dfs and uniap, and references of both spaces, as none is sure of a proof.
    assert (done.returncode, done.stderr.splitlines()[0]) == (0, ESTIMATE % (5, 60, 6))
    return small / "new" / "folder", done.stdout


def test_files(compared: tuple[Path, str]) -> None:
    folder, printed = compared
    assert {path.name for path in folder.iterdir()} == {
        f"compare.{ending}" for ending in ("csv", "json", "md", "png", "svg")
    }
    data = json.loads((folder / "compare.json").read_text("utf-8"))
    ensure_fits(data, "comparison")
    runs = data["problems"][0]["runs"]
    assert [(run["solver"], run["extra"], run["status"]) for run in runs] == [
        ("cp-sat", False, "optimal"),
        ("dfs", False, "feasible"),
        ("uniap", False, "refused"),
        # For what dfs need not keep.
        ("dp", True, "optimal"),
    ]
    assert runs[1]["relaxed"] == runs[3]["relaxed"] == ["p4-falling-tp"]
    assert "UniAP plans for one" in runs[2]["failure"]
    assert "failed" not in (folder / "compare.md").read_text("utf-8")
    with (folder / "compare.csv").open(encoding="utf-8") as stream:
        assert [line["solver"] for line in csv.DictReader(stream)] == [
            run["solver"] for run in runs
        ]
    assert "dfs†" in printed
    assert "proven optimum" in printed
    assert "dfs†" in (folder / "compare.svg").read_text("utf-8")


def test_traces_fall_to_the_plan(compared: tuple[Path, str]) -> None:
    data = json.loads((compared[0] / "compare.json").read_text("utf-8"))
    for run in data["problems"][0]["runs"]:
        if run["plan"] is None:
            continue
        times = [time for time, _ in run["trace"]]
        values = [value for _, value in run["trace"]]
        assert times == sorted(times)
        assert values == sorted(set(values), reverse=True)
        assert values[-1] == run["closed_form_s"]
        assert times[-1] <= run["search_time_s"] <= run["process_time_s"]


def test_plans_pass_check(compared: tuple[Path, str], small: Path) -> None:
    folder, _ = compared
    data = json.loads((folder / "compare.json").read_text("utf-8"))
    plan = folder.parent / "plan.json"
    plan.write_text(json.dumps(data["problems"][0]["runs"][0]["plan"]))
    assert main(["check", str(small / "problem.yaml"), str(plan)]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["p.yaml", "--solvers", "abacus"], "--solvers: there is no solver 'abacus'"),
        (["p.yaml", "--solvers", ""], "--solvers: there is no solver ''"),
        (["p.yaml", "--solvers", "dp,dp"], "--solvers: dp is named twice"),
        (["p.yaml", "--seeds", "0"], "--seeds: '0' is not a whole number"),
        (["p.yaml", "--time-limit", "0"], "--time-limit: '0' is not a number"),
        (["p.yaml", "--relax", "p9"], "--relax: there is no 'p9'"),
        (["p.yaml", "p.yaml"], "PROBLEM: two problems are named"),
        (["missing.yaml"], "missing.yaml: no such file"),
        (["p.yaml", "--out", "p.yaml/x"], "p.yaml/x: cannot be made: "),
        ([], "the following arguments are required: PROBLEM"),
    ],
)
def test_refusals_are_one_line(
    arguments: list[str],
    message: str,
    small: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copy(small / "problem.yaml", tmp_path / "p.yaml")
    monkeypatch.chdir(tmp_path)
    code: object
    try:
        code = main(["compare", "--out", "out", *arguments])
    except SystemExit as error:
        code = error.code
    assert code == 2
    error_text = capsys.readouterr().err
    assert message in error_text
    assert len(error_text.splitlines()) == 1
    assert not Path("out").exists()


def without_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make up runs and warm-ups instead of searching."""

    def run(problem: Problem, entry: Entry) -> Run:
        status: Status = "optimal" if entry.solver == "dp" else "feasible"
        return replace(made_run(entry.solver, (1, 10), status=status), entry=entry)

    monkeypatch.setattr(comparing, "run_apart", run)
    monkeypatch.setattr(comparing, "warm_up", lambda entry, schedule: 1.5)


def test_warm_ups_are_counted_apart_and_shown(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_searches(monkeypatch)
    entries = comparing.entries_of(
        ["uniform", "dfs"], seeds=[0], time_limit_s=60, jobs=1
    )
    problem = read_problem(small / "problem.yaml")
    told: list[str] = []
    found = comparing.compare(
        [problem], entries, time_limit_s=60, jobs=1, told=told.append
    )
    plans = "plans a tiny problem, so that its code is compiled"
    assert told[:7] == [
        f"warm-up 1 of 2, not timed: uniform {plans}",
        "warm-up 1 of 2, not timed: uniform took 1.5 s",
        "run 1 of 3: problem, uniform",
        "run 2 of 3: problem, uniform, every cluster",
        f"warm-up 2 of 2, not timed: dfs {plans}",
        "warm-up 2 of 2, not timed: dfs took 1.5 s",
        "run 3 of 3: problem, dfs",
    ]
    # ``dp`` in three spaces; with P4 relaxed its code is another.
    assert told[7].startswith("warm-up for reference, not timed: dp ")
    runs = [line for line in told[9:] if line.startswith("run for reference: ")]
    assert "run for reference: problem, dp, every cluster" in runs
    assert [run.every_cluster for run in rows(found.contests[0])].count(True) == 2
    assert "warm-up: 6.0 s apart from the timed runs" in conditions(found)[-1]


def test_warm_ups_for_reference_are_not_counted(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_searches(monkeypatch)
    (entry,) = comparing.entries_of(["mcts"], seeds=[0], time_limit_s=60, jobs=1)
    problem, told = read_problem(small / "problem.yaml"), list[str]()
    runs = comparing._Runner(told.append, None, [problem], [entry])
    runs.run(problem, replace(entry, solver="dp"), reference=True)
    runs.run(problem, entry)
    assert [each for each in told if each.startswith("warm-up 1 of 1, not")]
    assert not [each for each in told if "2 of 1" in each]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "options",
    [
        ("--pipelines", "2"),
        ("--schedule", "auto", "--chunks", "2", "--for", "megatron"),
    ],
)
def test_solvers_are_asked_what_plan_is_asked(
    options: tuple[str, ...],
    small: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A comparison that is cut off knows these plans again."""
    problem = str(small / "problem.yaml")
    planned = ("plan", problem, "--objective", "closed", "--jobs", "1", "--json")
    assert main([*planned, *options]) == 0
    best = json.loads(capsys.readouterr().out)
    folder = tmp_path / "out"
    asked = ("--solvers", "dp", "--time-limit", "60", "--jobs", "1", *options)
    command = ["compare", problem, *asked, "--out", str(folder)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeptRuns, "remove", lambda kept: None)
        patch.setattr(comparing, "warm_up", lambda entry, schedule: 1.5)
        assert main(command) == 0
    capsys.readouterr()
    data = json.loads((folder / "compare.json").read_text("utf-8"))
    ensure_fits(data, "comparison")
    (run,) = data["problems"][0]["runs"]
    assert (run["closed_form_s"], run["status"]) == (best["closed_form_s"], "optimal")
    assert run["plan"] == best["plan"]
    assert main(command) == 0
    assert "dp: reused from" in capsys.readouterr().err


TIGHT = """\
model: {layers: 6, hidden: 1024, heads: 4, ffn: 4096, vocab: 1000, tied: true}
clusters:
  - {name: red, accelerator: A100-80GB, memory: 1 GB, overhead: 0 GB, nodes: 1,
     devices_per_node: 2, inter_node: {bandwidth: 10 Gbps}}
  - {name: green, accelerator: A100-80GB, memory: 1 GB, overhead: 0 GB, nodes: 1,
     devices_per_node: 2, inter_node: {bandwidth: 100 Gbps}, nics_per_node: 1}
links: {default: {bandwidth: 10 Gbps, latency: 5 ms}}
training: {global_batch: 2, seq_len: 4096, zero: 0, recompute: full, schedule: zb-h1}
"""


def test_plans_that_the_launcher_cannot_run_are_on_no_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = tmp_path / "problem.yaml"
    problem.write_text(TIGHT)
    asked = ("--for", "nemo", "--solvers", "dp", "--time-limit", "30", "--jobs", "1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "warm_up", lambda entry, schedule: 1.5)
        assert main(["compare", str(problem), *asked, "--out", str(tmp_path)]) == 0
    assert "failed" not in capsys.readouterr().out


class TestGoingOn:
    """A comparison that is cut off goes on from the runs that it kept."""

    @pytest.fixture(autouse=True)
    def made(
        self,
        small: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> list[str]:
        """Return the solvers that are run; ``uniform`` is met by Ctrl-C, once."""
        made: list[str] = []

        def run(problem: Problem, entry: Entry) -> Run:
            made.append(entry.solver)
            if made == ["dp", "uniform"]:
                raise KeyboardInterrupt
            return run_once(problem, entry)

        monkeypatch.setattr(comparing, "run_apart", run)
        monkeypatch.setattr(comparing, "warm_up", lambda entry, schedule: 1.5)
        # What is said is compared, however slow this machine is.
        monkeypatch.setattr(ShownProgress, "EVERY_S", 1e9)
        shutil.copy(small / "problem.yaml", tmp_path / "p.yaml")
        monkeypatch.chdir(tmp_path)
        return made

    def compare(
        self, *more: str, limit: str = "60", solvers: str = "dp,uniform"
    ) -> int:
        options = ["--solvers", solvers, "--time-limit", limit, "--jobs", "1"]
        return main(["compare", "p.yaml", "--out", "out", *options, *more])

    @pytest.mark.slow
    def test_from_what_it_kept(
        self, made: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.compare() == 3
        assert capsys.readouterr() == (
            "",
            f"{ESTIMATE % (4, 60, 5)}\n"
            "stopped: interrupted; out/compare.runs.jsonl keeps 1 run, and the same "
            "command goes on from there\n",
        )
        assert [path.name for path in Path("out").iterdir()] == ["compare.runs.jsonl"]
        # Whoever killed it in the middle of a line loses that line.
        with Path("out/compare.runs.jsonl").open("a") as runs:
            runs.write('{"of": {"problem')

        assert self.compare() == 0
        said = capsys.readouterr().err.splitlines()
        name = json.loads(Path("out/compare.json").read_text())["problems"][0][
            "problem"
        ]
        assert said[1:] == [f"{name}: dp: reused from out/compare.runs.jsonl"]
        # Both variants, and the best plan that uses every cluster.
        assert made == ["dp", "uniform", "uniform", "uniform", "dp"]
        data = json.loads(Path("out/compare.json").read_text("utf-8"))
        ensure_fits(data, "comparison")
        runs = data["problems"][0]["runs"]
        assert [(run["solver"], run["every_cluster"]) for run in runs] == [
            ("dp", False),
            ("uniform", False),
            ("uniform", True),
            ("dp", True),
        ]
        # A plan with more pins is one of the problem itself.
        Path("plan.json").write_text(json.dumps(runs[2]["plan"]))
        assert main(["check", "p.yaml", "plan.json"]) == 0
        assert data["warm_up_s"] == {"dp": 1.5, "uniform": 1.5}
        # A finished one is begun anew.
        assert not Path("out/compare.runs.jsonl").exists()

    @pytest.mark.slow
    @pytest.mark.parametrize("change", ["limit", "plan", "version", "fresh"])
    def test_not_from_another_run(
        self,
        change: str,
        made: list[str],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        assert self.compare() == 3
        made.append("|")
        runs = Path("out/compare.runs.jsonl")
        if change == "plan":
            # The plan is said to be better than it is.
            header, line = runs.read_text().splitlines()
            data = json.loads(line)
            data["result"]["closed_form_s"] *= 0.5
            runs.write_text(f"{header}\n{json.dumps(data)}\n")
        elif change == "version":
            monkeypatch.setattr("hetopt.comparing.kept_runs.__version__", "99")
        more = ["--fresh"] if change == "fresh" else []
        assert self.compare(*more, limit="50" if change == "limit" else "60") == 0
        assert made[3:] == ["dp", "uniform", "uniform", "dp"]
        assert "reused" not in capsys.readouterr().err

    def test_a_file_of_something_else_is_kept(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("out").mkdir()
        for text in ("mine\n", "mine", "[]\n"):
            Path("out/compare.runs.jsonl").write_text(text)
            assert self.compare() == 2
            assert "is not a line of kept runs" in capsys.readouterr().err
            assert Path("out/compare.runs.jsonl").read_text() == text


class TestBeforeTheFirstRun:
    """What ``hetopt compare`` says and does before it runs anything."""

    @pytest.fixture(autouse=True)
    def begun(
        self, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> dict[str, list[str]]:
        """Return what is compiled, and the runs that would be made."""
        begun: dict[str, list[str]] = {"compiled": [], "runs": []}

        def compare(problems: object, entries: list[Entry], **how: object) -> None:
            begun["runs"] = [f"{each.solver} {each.seed}" for each in entries]
            raise KeyboardInterrupt

        monkeypatch.setattr(comparing, "compare", compare)
        monkeypatch.setattr(command, "prepare", begun["compiled"].extend)
        shutil.copy(small / "problem.yaml", tmp_path / "p.yaml")
        monkeypatch.chdir(tmp_path)
        return begun

    def test_solvers_that_sample_have_three_seeds(
        self, begun: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
    ) -> None:
        chosen = ["compare", "p.yaml", "--out", "out", "--solvers", "dp,mcts"]
        assert main([*chosen, "--time-limit", "90"]) == 3
        assert begun["runs"] == ["dp None", "mcts 0", "mcts 1", "mcts 2"]
        # ``dp`` bounds what ``mcts`` finds: no further run is needed.
        assert capsys.readouterr().err.splitlines()[0] == ESTIMATE % (4, 90, 7)
        assert main([*chosen, "--seed", "5", "--seeds", "1"]) == 3
        assert begun["runs"] == ["dp None", "mcts 5"]

    def test_what_references_need_is_compiled_as_well(
        self, begun: dict[str, list[str]]
    ) -> None:
        main(["compare", "p.yaml", "--out", "out", "--solvers", "milp"])
        assert {"bounds", "dp"} <= {*begun["compiled"]}


def test_a_file_gets_a_line_of_progress_now_and_then(
    small: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(problem: Problem, entry: Entry) -> Run:
        time.sleep(0.3)
        return made_run(entry.solver, (1, 10), status="optimal")

    monkeypatch.setattr(comparing, "run_apart", run)
    monkeypatch.setattr(comparing, "warm_up", lambda entry, schedule: 1.5)
    monkeypatch.setattr(ShownProgress, "EVERY_S", 0.05)
    chosen = ("--solvers", "dp", "--out", str(tmp_path / "out"))
    assert main(["compare", str(small / "problem.yaml"), *chosen]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[1:]
    assert {*said[1:]} == {"comparing, 0 s: run 1 of 1: problem, dp"}
