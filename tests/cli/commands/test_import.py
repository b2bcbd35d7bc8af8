"""``hetopt import`` and ``hetopt explain`` at the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from hetopt.cli import main
from tests.schemas import ensure_fits

if TYPE_CHECKING:
    from tests.cli.conftest import RunHetopt

TRAIN: dict[str, Any] = {
    "system": {
        "pipeline_model_parallel_size": 2,
        "sequence_parallel": True,
        "use_distributed_optimizer": True,
        "bf16": True,
        "cross_entropy_loss_fusion": True,
        "overlap_grad_reduce": True,
        "hetero": {
            "enable_hetero": True,
            "hetero_use_cpu_communication": True,
            "hetero_process_meshes": [1, 1, 1, 2, 1, 1, 1, 1, 1, 1],
            "hetero_pipeline_layer_split": [2, 2],
            "hetero_device_types": ["fast", "A40"],
        },
    },
    "model": {
        "num_layers": 4,
        "hidden_size": 1024,
        "ffn_hidden_size": 4096,
        "normalization": "RMSNorm",
        "position_embedding_type": "rope",
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "num_attention_heads": 8,
        "seq_length": 1024,
        "swiglu": True,
        "disable_bias_linear": True,
        "untie_embeddings_and_output_weights": True,
        "micro_batch_size": 1,
        "global_batch_size": 4,
    },
}


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """Return a folder with a FlagScale configuration for the small problem."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "train.yaml").write_text(yaml.safe_dump(TRAIN))
    return folder


def edit(folder: Path, part: str, key: str, value: object) -> None:
    data = yaml.safe_load((folder / "train.yaml").read_text())
    data[part][key] = value
    (folder / "train.yaml").write_text(yaml.safe_dump(data))


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_import_check_export_and_import_again(
    small: Path, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = str(tmp_path / "problem.yaml")
    # FlagScale's own way between meshes, which is not the fastest here.
    pinned = (small / "problem.yaml").read_text() + "pin: {resharding: p2p}\n"
    Path(problem).write_text(pinned)
    plan, again = str(tmp_path / "plan.json"), str(tmp_path / "again.json")
    code, out, err = call(
        capsys, "import", problem, str(mine), "--from", "flagscale", "--out", plan
    )
    assert (code, err) == (0, "")
    assert "s in closed form" in out
    written = json.loads(Path(plan).read_text())
    # The problem's own: with two micro-batches 1F1B does the same.
    assert written["plan"]["schedule"] == "virtual-1f1b"
    assert written["solver"] == "import"
    assert call(capsys, "check", problem, plan)[0] == 0
    bundle = str(tmp_path / "bundle")
    exported = call(
        capsys, "export", problem, plan, "--to", "flagscale", "--out", bundle
    )
    assert exported[0] == 0, exported
    # Whose files these are can be told.
    assert call(capsys, "import", problem, bundle, "--out", again)[0] == 0
    assert Path(again).read_text() == Path(plan).read_text()


def test_what_is_not_feasible_is_written_with_a_warning(
    small: Path, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (small / "problem.yaml").read_text()
    problem = tmp_path / "pinned.yaml"
    problem.write_text(text + "pin: {microbatches: 4}\n")
    plan = str(tmp_path / "plan.json")
    code, out, err = call(capsys, "import", str(problem), str(mine), "--out", plan)
    assert code == 0
    assert "but it is not feasible" in out
    assert err.startswith("warning: pin microbatches: 2, expected 4\n")
    code, _, err = call(capsys, "check", str(problem), plan)
    assert code == 1
    assert "pin microbatches: 2, expected 4" in err


def test_what_is_not_priced_is_said_line_by_line(
    small: Path, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hetero = TRAIN["system"]["hetero"] | {"hetero_use_cpu_communication": False}
    edit(mine, "system", "hetero", hetero)
    edit(mine, "system", "overlap_param_gather", True)
    edit(mine, "model", "our_switch", 3)
    problem, plan = str(small / "problem.yaml"), str(tmp_path / "plan.json")
    code, out, err = call(capsys, "import", problem, str(mine), "--out", plan)
    assert (code, err) == (0, "")
    reason = "hetopt prices the gather of weights after the optimizer's step"
    assert out.splitlines()[1:] == [
        "our_switch: hetopt does not know it",
        f"overlap_param_gather: {reason}, not overlapped",
    ]
    written = json.loads(Path(plan).read_text())
    ensure_fits(written, "result")
    told = [(each["argument"], each["kind"]) for each in written["reported"]]
    assert told == [("our_switch", "unknown"), ("overlap_param_gather", "not priced")]
    assert call(capsys, "check", problem, plan)[0] == 0
    arguments = ("explain", problem, plan, "--mine", str(mine))
    code, out, err = call(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    explained = json.loads(out)
    ensure_fits(explained, "explanation")
    assert explained["mine"]["reported"] == written["reported"]
    assert "our_switch: hetopt does not know it" in call(capsys, *arguments)[1]


def test_all_differences_are_said_at_once(
    small: Path, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(mine, "system", "bf16", False)
    edit(mine, "system", "cross_entropy_loss_fusion", False)
    code, out, err = call(
        capsys,
        *("import", str(small / "problem.yaml"), str(mine)),
        *("--out", str(tmp_path / "p.json")),
    )
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "precision: the files say fp32, the problem bf16; " in err
    assert "cross_entropy: the files say unfused, the problem fused: correct" in err


@pytest.mark.parametrize(
    ("part", "key", "value", "message"),
    [
        ("model", "hidden_size", 2048, "hidden: the files say 2048, the problem 1024"),
        ("model", "num_layers", 5, "adds up to 4, num_layers is 5"),
        ("model", "micro_batch_size", 3, "expected a multiple of"),
        ("system", "hetero", {"enable_hetero": False}, "cannot tell how many ranks"),
        ("system", "hetero", [1], "cannot tell how many ranks"),
    ],
)
def test_bad_folders_are_one_line(
    small: Path,
    mine: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    part: str,
    key: str,
    value: object,
    message: str,
) -> None:
    edit(mine, part, key, value)
    for command in (["import", "--out", str(tmp_path / "p.json")], ["explain"]):
        folder = [str(mine)] if command[0] == "import" else ["--mine", str(mine)]
        code, out, err = call(
            capsys,
            *(command[0], str(small / "problem.yaml"), *folder, *command[1:]),
            *("--from", "flagscale"),
        )
        assert (code, out) == (2, "")
        assert message in err
        assert str(mine) in err
        assert err.count("\n") == 1
    assert not (tmp_path / "p.json").exists()


def test_folders_and_readers_that_there_are_not(
    small: Path, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = str(small / "problem.yaml")
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        ([str(tmp_path / "lost")], "no such folder"),
        ([problem], "is a file, expected a folder"),
        ([str(tmp_path / "empty")], "is of no known launcher: name one with --from"),
        ([str(mine), "--from", "torchrun"], "--from: nothing reads 'torchrun'"),
        ([str(mine), "--from", "flagscal"], "--from: nothing reads 'flagscal'"),
    ):
        code, out, err = call(
            capsys, "import", problem, *arguments, "--out", str(tmp_path / "p.json")
        )
        assert (code, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1


def test_a_table_has_to_be_of_the_schedule_that_the_files_run(
    small: Path, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (small / "problem.yaml").read_text()
    table, plan = str(tmp_path / "table.json"), str(tmp_path / "plan.json")
    for schedule, expected in (("gpipe", 2), ("1f1b", 0)):
        problem = tmp_path / f"{schedule}.yaml"
        problem.write_text(text.replace("1024}\n", f"1024, schedule: {schedule}}}\n"))
        assert schedule in problem.read_text()
        assert call(capsys, "table", str(problem), "--out", table)[0] == 0
        arguments = (str(problem), str(mine), "--table", table, "--out", plan)
        code, _, err = call(capsys, "import", *arguments)
        assert code == expected
        assert ("`schedule: 1f1b`, which the files run" in err) is (code == 2)
    assert call(capsys, "check", str(problem), plan, "--table", table)[0] == 0


def test_explain_takes_a_plan_apart(
    small: Path, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = str(small / "problem.yaml")
    plan = str(tmp_path / "plan.json")
    better = tmp_path / "better"
    better.mkdir()
    (better / "train.yaml").write_text((mine / "train.yaml").read_text())
    edit(better, "system", "pipeline_model_parallel_size", 2)
    hetero = TRAIN["system"]["hetero"] | {"hetero_pipeline_layer_split": [3, 1]}
    edit(better, "system", "hetero", hetero)
    edit(better, "system", "recompute_granularity", "selective")
    assert call(capsys, "import", problem, str(better), "--out", plan)[0] == 0
    arguments = ("explain", problem, plan, "--mine", str(mine))
    code, out, err = call(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    ensure_fits(told, "explanation")
    whats = [change["what"] for step in told["steps"] for change in step["changes"]]
    assert whats == ["layer split", "recomputation", "recomputation"]
    assert told["steps"][-1]["closed_form_s"] == told["ours"]["closed_form_s"]
    assert told["mine"]["feasible"]
    code, out, err = call(capsys, *arguments)
    assert (code, err) == (0, "")
    assert "layer split: 2 on fast; 2 on slow -> 3 on fast; 1 on slow" in out
    # The changes of the table add up to its last line.
    rows = [
        line.split() for line in out.splitlines() if " -> " in line or "in all" in line
    ]
    steps = [
        float(row[-3]) for row in rows if "in" not in row[:1] and row[-3][:1] in "+-"
    ]
    total = next(row for row in rows if row[:2] == ["in", "all"])
    assert sum(steps) == pytest.approx(float(total[2]), abs=2e-4)


def test_explain_says_what_does_not_fit(
    small: Path, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (small / "problem.yaml").read_text()
    plan = str(tmp_path / "plan.json")
    problem = tmp_path / "tight.yaml"
    tight = text.replace(
        "accelerator: A40,", "accelerator: A40, memory: 700 MB, overhead: 0 GB,"
    )
    assert tight != text
    problem.write_text(tight)
    better = tmp_path / "better"
    better.mkdir()
    (better / "train.yaml").write_text((mine / "train.yaml").read_text())
    hetero = TRAIN["system"]["hetero"] | {
        "hetero_process_meshes": [1, 1, 1, 1, 2],
        "hetero_device_types": ["fast"],
    }
    edit(better, "system", "hetero", hetero)
    code, _, err = call(capsys, "import", str(problem), str(better), "--out", plan)
    assert (code, err) == (0, "")
    code, out, err = call(capsys, "explain", str(problem), plan, "--mine", str(mine))
    assert (code, err) == (0, "")
    assert "does not fit" in out
    assert "stage 1 (slow) needs" in out
    assert "GB too much" in out


def test_explain_searches_where_no_plan_is_given(
    planned: Path, mine: Path, run_hetopt: RunHetopt
) -> None:
    done = run_hetopt(
        *("explain", "problem.yaml", "--mine", str(mine), "--jobs", "1", "--json"),
        cwd=planned,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    ensure_fits(told, "explanation")
    assert told["speedup"]["closed_form"] >= 1
    best = json.loads((planned / "plan.json").read_text())
    assert told["ours"]["plan"] == best["plan"]
    assert told["ours"]["iteration_time_s"] == pytest.approx(best["iteration_time_s"])


@pytest.mark.slow
def test_explain_within_a_launchers_limits_and_with_a_table(
    small: Path, mine: Path, tmp_path: Path, run_hetopt: RunHetopt
) -> None:
    """Both plans are priced as the launcher sends, and by the user's own table."""
    for arguments in (
        ("plan", "problem.yaml", "--for", "flagscale", "--out", "for.json"),
        ("table", "problem.yaml", "--out", "explained.json"),
    ):
        done = run_hetopt(*arguments, cwd=small)
        assert done.returncode == 0, done.stderr
    for chosen in (("for.json",), ("--table", "explained.json")):
        done = run_hetopt(
            *("explain", "problem.yaml", *chosen, "--mine", str(mine), "--json"),
            cwd=small,
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        last = (told["steps"] or [told["mine"]])[-1]
        assert last["closed_form_s"] == told["ours"]["closed_form_s"]
        assert last["iteration_time_s"] == told["ours"]["iteration_time_s"]
