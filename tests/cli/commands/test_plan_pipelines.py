"""Plans of several pipelines at the command line: found, checked, refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hetopt
from hetopt.check import check_result
from hetopt.check.plan.reading import read_plan
from hetopt.cli import main
from hetopt.export.bundle import losses_of
from hetopt.export.job import Job
from hetopt.export.registry import launcher
from hetopt.pricing.several import price_several
from hetopt.problem.reading import read_problem_text
from tests.schemas import ensure_fits

TEXT = """\
model: {layers: 6, hidden: 1024, heads: 8, ffn: 4096, vocab: 4000}
clusters:
  - {name: a, accelerator: A100-40GB, nodes: [2, 2, 1],
     inter_node: {bandwidth: 100 Gbps}}
training: {global_batch: 12, seq_len: 8192, schedule: 1f1b}
"""


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a problem of which two pipelines make more than one."""
    monkeypatch.chdir(tmp_path)
    Path("lost.yaml").write_text(TEXT)
    return tmp_path


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What ``hetopt plan --pipelines 2 --out`` writes of it."""
    folder = tmp_path_factory.mktemp("found")
    (folder / "lost.yaml").write_text(TEXT)
    out = str(folder / "plan.json")
    options = ("--jobs", "1", "--pipelines", "2", "--out", out)
    assert main(["plan", str(folder / "lost.yaml"), *options]) == 0
    data: dict[str, Any] = json.loads(Path(out).read_text("utf-8"))
    return data


def write(data: Any) -> str:
    Path("plan.json").write_text(json.dumps(data), "utf-8")
    return "plan.json"


def test_two_pipelines_use_what_one_leaves_idle(found: dict[str, Any]) -> None:
    ensure_fits(found, "result")
    ensure_fits(found["plan"], "plan")
    shares = [each["share"] for each in found["plan"]["pipelines"]]
    assert sum(share["batch"] for share in shares) == 12
    assert sum(sum(share["nodes"]["a"]) for share in shares) == 5
    assert found["status"] == "optimal"


@pytest.mark.usefixtures("lost")
def test_it_is_quicker_than_the_best_of_one(found: dict[str, Any]) -> None:
    one = hetopt.plan("lost.yaml", jobs=1)
    two = hetopt.plan("lost.yaml", jobs=1, pipelines=2)
    assert one.best is not None
    assert two.best is not None
    assert two.best.closed_form_s == found["closed_form_s"]
    assert two.best.closed_form_s < 0.95 * one.best.closed_form_s
    priced = price_several(hetopt.read_problem("lost.yaml"), two.best.plan)
    assert priced.iteration_time_s == pytest.approx(two.best.iteration_time_s)
    assert "pipeline 1: 1 stage" in str(two.best.plan)
    assert "2 pipelines side by side" in repr(two.best.plan)


@pytest.mark.usefixtures("lost")
def test_check_and_simulate_take_it(
    found: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "lost.yaml", write(found)]) == 0
    assert main(["check", "lost.yaml", write(found["plan"])]) == 0
    capsys.readouterr()
    assert main(["simulate", "lost.yaml", write(found["plan"])]) == 0
    printed = capsys.readouterr().out
    assert "pipeline 1: 1 stage" in printed
    assert f"{found['iteration_time_s']:.6f} s, with gradients" in printed
    assert main(["simulate", "lost.yaml", "plan.json", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    ensure_fits(data, "simulation")
    assert data["iteration_time_s"] == pytest.approx(found["iteration_time_s"])
    assert len(data["pipelines"]) == 2


@pytest.mark.usefixtures("lost")
def test_bounds_above_what_the_plan_takes_are_found(
    found: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """They leave the sums as they were."""
    forged = json.loads(json.dumps(found))
    for child in forged["claims"]["children"]:
        for claim in child.get("parts", [child]):
            claim["bound_s"] = 100.0
    assert main(["check", "lost.yaml", write(forged)]) == 1
    assert "its own division is said to take at least " in capsys.readouterr().err


@pytest.mark.usefixtures("lost")
def test_an_export_of_several_plans_says_which_has_too_many(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("lost.yaml").write_text(TEXT.replace("[2, 2, 1]", "[4]"))
    asked = ("--pipelines", "2", "--top", "3", "--jobs", "1", "--out", "plan.json")
    assert main(["plan", "lost.yaml", *asked]) == 0
    found = json.loads(Path("plan.json").read_text("utf-8"))
    plans = [found["plan"], *(each["plan"] for each in found["alternatives"])]
    several = [len(each["pipelines"]) > 1 for each in plans]
    number = several.index(True)
    assert number > 0
    options = ("--to", "megatron", "--top", str(number + 1), "--out", "x")
    capsys.readouterr()
    assert main(["export", "lost.yaml", "plan.json", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"alternatives.{number - 1}.plan.pipelines: has 2 pipelines" in line


@pytest.mark.usefixtures("lost")
@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("export", "--to", "megatron", "--out", "x"), "for Megatron-LM run one"),
        (("report", "--out", "x.html"), "takes plans of one"),
        (("simulate", "--svg", "x.svg"), "draws one pipeline"),
        (
            ("simulate", "--table", "t.json"),
            "has no rows for pipelines on some of the nodes",
        ),
    ],
)
def test_others_refuse_it_in_one_line(
    found: dict[str, Any],
    command: tuple[str, ...],
    why: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, *options = command
    plan = write(found)
    assert main([name, "lost.yaml", plan, *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert why in line


@pytest.mark.usefixtures("lost")
@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--table", "lost.yaml"), "--table: has no rows for pipelines"),
        (("--solver", "dfs"), "does not race"),
        (("--pipelines", "5"), "--pipelines: is 5, expected 1 to 4"),
    ],
)
def test_what_is_about_one_pipeline_is_refused(
    options: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "lost.yaml", "--pipelines", "2", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert why in line


@pytest.mark.usefixtures("lost")
def test_pins_of_a_whole_plan_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("lost.yaml").write_text(f"{TEXT}pin: {{stages: 2}}\n")
    assert main(["plan", "lost.yaml", "--pipelines", "2"]) == 2
    assert "pin.stages: applies to one pipeline only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"lower_bound_s": 1.0}, "more than the plan's"),
        ({"gap": 0.25}, "gap: 0.25"),
        ({"claims.of": 3}, "of: 3, expected"),
        ({"over.0.divisions.most": 1}, "the plan has 2"),
        ({"claims.children": []}, "the divisions prove only"),
        ({"claims.children.0.at": [{"a": [2, 2]}]}, "is no division of the nodes"),
        ({"closed_form_s": 0.01}, "closed_form_s: 0.01"),
    ],
)
@pytest.mark.usefixtures("lost")
def test_forged_claims_are_found(
    found: dict[str, Any], change: dict[str, Any], why: str
) -> None:
    problem = hetopt.read_problem("lost.yaml")
    wrong = check_result(problem, hetopt.build_table(problem), changed(found, change))
    assert any(why in line for line in wrong), wrong


@pytest.mark.usefixtures("lost")
def test_claims_of_too_many_ways_are_refused(found: dict[str, Any]) -> None:
    many = TEXT.replace("[2, 2, 1]", "40").replace(
        "inter", "devices_per_node: 2, inter"
    )
    problem = read_problem_text(many)
    data = changed(found, {"over.0.divisions.most": 4})
    with pytest.raises(hetopt.InputError, match="divide 40 nodes are too many"):
        check_result(problem, hetopt.build_table(problem), data)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"pipelines.0.share.batch": 5}, "expected 12"),
        (
            {"pipelines.0.share.nodes": {"a": [2, 2, 2]}},
            "cannot be divided into parts",
        ),
        (
            {"pipelines.0.share.nodes": {"a": [1, 1, 1, 1]}},
            "those of each pipeline in nodes of their own",
        ),
        ({"pipelines.0.share.nodes": {"b": [2]}}, "no cluster is named 'b'"),
        ({"pipelines.0.share.nodes": {}}, "has no nodes"),
        ({"pipelines.1.microbatches": 5}, "pipeline 1: "),
    ],
)
@pytest.mark.usefixtures("lost")
def test_faults_of_plans_are_found(
    found: dict[str, Any],
    change: dict[str, Any],
    why: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", "lost.yaml", write(changed(found["plan"], change))]) == 1
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"pipelines.0.share.nodes.a": [0]},
            "is 0, expected a whole number of at least 1",
        ),
        ({"pipelines.0.share.batch": 0}, "is 0, expected a whole number of at least 1"),
        ({"pipelines.0.share.nodes": 3}, "expected a mapping"),
        ({"pipelines.0.share": None}, "share: is empty, expected a mapping"),
        ({"pipelines": []}, "pipelines: has 0 entries, expected at least 1"),
    ],
)
@pytest.mark.usefixtures("lost")
def test_bad_shares_are_refused(
    found: dict[str, Any],
    change: dict[str, Any],
    why: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", "lost.yaml", write(changed(found["plan"], change))]) == 2
    assert why in capsys.readouterr().err


def changed(data: Any, change: dict[str, Any]) -> Any:
    """Return a copy of JSON data with other values at some places."""
    copy = json.loads(json.dumps(data))
    for path, value in change.items():
        *keys, last = (int(key) if key.isdigit() else key for key in path.split("."))
        place = copy
        for key in keys:
            place = place[key]
        place[last] = value
    return copy


@pytest.mark.usefixtures("lost")
def test_a_launcher_has_one_with_a_certificate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("even.yaml").write_text(TEXT.replace("[2, 2, 1]", "2, devices_per_node: 2"))
    asked = "--objective", "closed", "--for", "megatron", "--pipelines", "2"
    files = "--out", "plan.json", "--certificate", "cert.json"
    assert main(["plan", "even.yaml", *asked, *files, "--jobs", "1"]) == 0
    over = json.loads(Path("plan.json").read_text("utf-8"))["over"]
    assert over == [{"launcher": "megatron"}]
    assert main(["check", "even.yaml", "plan.json"]) == 0
    assert main(["verify", "even.yaml", "plan.json", "cert.json"]) == 0
    assert "verified" in capsys.readouterr().out
    # The same claims said of divisions, of which only one would count.
    data = json.loads(Path("plan.json").read_text("utf-8"))
    del data["asked"]
    data["over"] = [{"divisions": {"most": 2}}, *over]
    child = {"at": [{"a100": [2, 2]}], **data["claims"]}
    data["claims"] = {"by": "divisions", "of": 1, "children": [child]}
    Path("forged.json").write_text(json.dumps(data))
    assert main(["check", "even.yaml", "forged.json"]) == 1
    assert "the divisions prove only" in capsys.readouterr().err


@pytest.mark.usefixtures("lost")
@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", ["torch", "hetu", "hexiscale"])
def test_a_launcher_runs_several(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As they are: they have in common what it needs, and nothing is lost."""
    text = TEXT.replace("layers: 6, hidden: 1024, heads: 8, ffn: 4096, vocab: 4000", "")
    text = text.replace("model: {}", "model: {preset: llama-7b, layers: 6}")
    text = text.replace("8192", "4096, zero: 0").replace("A100-40GB", "A100-80GB")
    Path("lost.yaml").write_text(text)
    files = "--out", "plan.json", "--certificate", "cert.json"
    asked = "--objective", "closed", "--for", name, "--pipelines", "2", "--jobs", "1"
    assert main(["plan", "lost.yaml", *asked, *files]) == 0
    assert f"{name} can run, of up to 2 pipelines" in capsys.readouterr().out
    data = json.loads(Path("plan.json").read_text("utf-8"))
    assert data["status"] == "optimal"
    plan = read_plan(data["plan"], "plan")
    assert len(plan.pipelines) == 2
    problem = hetopt.read_problem("lost.yaml").under(plan.schedule)
    assert losses_of(Job.of(problem, plan), launcher(name)) == ()
    assert main(["check", "lost.yaml", "plan.json"]) == 0
    assert main(["verify", "lost.yaml", "plan.json", "cert.json"]) == 0
    divisions = data["over"][0]["divisions"]
    if name == "torch":
        assert divisions == {"most": 2}
        return
    del data["asked"]
    alone = {**data, "over": data["over"][:1]}
    Path("forged.json").write_text(json.dumps(alone))
    capsys.readouterr()
    assert main(["check", "lost.yaml", "forged.json"]) == 2
    assert "alike: has no meaning without a launcher" in capsys.readouterr().err
    # The best of pipelines that share another value need not be that of all.
    value = divisions["alike"].pop()
    for child in data["claims"]["children"]:
        parts = child.get("parts", ())
        child["parts"] = [part for part in parts if part.get("alike") != value]
        if not parts:
            del child["parts"]
    Path("forged.json").write_text(json.dumps(data))
    capsys.readouterr()
    assert main(["check", "lost.yaml", "forged.json"]) == 1
    assert f"alike: {name}'s pipelines share" in capsys.readouterr().err


@pytest.mark.usefixtures("lost")
def test_what_a_plan_file_claims_of_pipelines_is_verified(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Not its certificate's claims alone."""
    files = "--out", "plan.json", "--certificate", "cert.json"
    asked = "--objective", "closed", "--pipelines", "2", "--jobs", "1"
    assert main(["plan", "lost.yaml", *asked, *files]) == 0
    assert main(["verify", "lost.yaml", "plan.json", "cert.json"]) == 0
    data = json.loads(Path("plan.json").read_text("utf-8"))
    data["claims"]["children"] = []
    Path("forged.json").write_text(json.dumps(data))
    capsys.readouterr()
    for command, *certificate in (["check"], ["verify", "cert.json"]):
        assert main([command, "lost.yaml", "forged.json", *certificate]) == 1
        assert "the divisions prove only" in capsys.readouterr().err


CHUNKS = """\
model: {layers: 4, hidden: 512, heads: 4, ffn: 2048, vocab: 1000}
clusters:
  - {name: a, accelerator: H100, nodes: 2, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps}}
training: {global_batch: 8, seq_len: 8192, zero: 0, schedule: interleaved-1f1b,
  chunks: 2}
pin: {clusters: {a: {dp: 1, cp: 1, tp: 1}}%s}
"""


@pytest.mark.parametrize("cuts", ["", ", cuts: [2, 3, 4, 6]"])
def test_stages_of_several_chunks_may_be_side_by_side(
    cuts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans, checks, bundles and moves, of chunks that are alike or not."""
    monkeypatch.chdir(tmp_path)
    Path("chunks.yaml").write_text(CHUNKS % cuts)
    problem = ("chunks.yaml", "plan.json")
    out = ("--pipelines", "2", "--jobs", "1", "--out", "plan.json")
    assert main(["plan", "chunks.yaml", *out]) == 0
    data = json.loads(Path("plan.json").read_text("utf-8"))
    assert len(data["plan"]["pipelines"]) == 2
    assert data["status"] == "optimal"
    assert main(["check", *problem]) == 0
    assert main(["export", *problem, "--to", "torch", "--out", "bundle"]) == 0
    # A plan alone is read as well as an answer that has it.
    Path("plan.json").write_text(json.dumps(data["plan"]), "utf-8")
    assert main(["check", *problem]) == 0
    lost = ("--lost", "a/1", "--iterations", "500", "--jobs", "1")
    assert main(["replan", *problem, *lost]) == 0
