"""``hetopt whatif``: every figure is that of the edited problem, planned alone."""

from __future__ import annotations

import csv
import json
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from hetopt.cli import main
from tests.cli.conftest import RunHetopt
from tests.schemas import ensure_fits

#: What a row has of the result of ``hetopt plan``.
SAME = ("status", "closed_form_s", "iteration_time_s", "tokens_per_s", "plan")
DEVICES = ("A100-80GB", "A40", "H100", "V100-32GB")


def drawn(rng: Random) -> dict[str, Any]:
    """Return a problem of two or three small clusters, some of them with prices."""
    clusters: list[dict[str, Any]] = []
    for name in ("red", "green", "blue")[: rng.randint(2, 3)]:
        clusters.append(
            {
                "name": name,
                "accelerator": rng.choice(DEVICES),
                "nodes": rng.randint(1, 2),
                "devices_per_node": rng.choice((1, 2)),
                "inter_node": {"bandwidth": f"{rng.choice((10, 100))} Gbps"},
            }
        )
        if rng.random() < 0.8:
            clusters[-1]["price_per_hour"] = rng.choice((3, 12.5, 40))
    return {
        "model": {"layers": 4, "hidden": 512, "heads": 4, "ffn": 2048, "vocab": 32000},
        "clusters": clusters,
        "links": {
            "default": {"bandwidth": "10 Gbps", "latency": "1 ms"},
            "pairs": [{"between": ["red", "green"], "bandwidth": "1 Gbps"}],
        },
        "training": {
            "global_batch": 4,
            "seq_len": 1024,
            "precision": "fp16",
            "recompute": {"red": "none"},
            "schedule": rng.choice(("1f1b", "virtual-1f1b", "gpipe")),
        },
    }


def by_hand(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the variants that ``OPTIONS`` ask for, edited as a user would."""
    found = {"as it is": data}

    def variant(change: str) -> dict[str, Any]:
        found[change] = deepcopy(data)
        return found[change]

    for index, cluster in enumerate(data["clusters"]):
        name = cluster["name"]
        without = variant(f"without {name}")
        del without["clusters"][index]
        if name in ("red", "green"):
            del without["links"]["pairs"]
        if name == "red":
            without["training"]["recompute"] = "auto"
        if cluster["nodes"] > 1:
            variant(f"{name}:-1")["clusters"][index]["nodes"] -= 1
    variant("red:+1")["clusters"][0]["nodes"] += 1
    both = variant("clusters.green.nodes=3,links.default.latency=2 ms")
    both["clusters"][1]["nodes"] = 3
    both["links"]["default"]["latency"] = "2 ms"
    for bandwidth in ("1 Gbps", "unlimited"):
        for batch in (4, 8):
            change = (
                f"links.default.bandwidth={bandwidth},training.global_batch={batch}"
            )
            grid = variant(change)
            grid["links"]["default"]["bandwidth"] = bandwidth
            grid["training"]["global_batch"] = batch
    return found


OPTIONS = (
    *("--drop-each", "--add", "red:1"),
    *("--set", "clusters.green.nodes=3,links.default.latency=2 ms"),
    *("--sweep", "links.default.bandwidth=1 Gbps,unlimited"),
    *("--sweep", "training.global_batch=4,8"),
)


def test_any_schedule_may_have_any_of_several_chunks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "problem.yaml"
    path.write_text(yaml.safe_dump(drawn(Random(0))))
    asked = ["--schedule", "auto", "--chunks", "2,4", "--jobs", "1", "--json"]
    assert (
        main(["whatif", str(path), "--sweep", "training.global_batch=4", *asked]) == 0
    )
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert main(["plan", str(path), *asked, "--objective", "closed"]) == 0
    best = json.loads(capsys.readouterr().out)
    assert rows[0]["closed_form_s"] == pytest.approx(best["closed_form_s"])
    options = ["--schedule", "interleaved-1f1b", "--chunks", "2,4"]
    assert main(["whatif", str(path), "--drop-each", *options]) == 2
    assert "name one, or --schedule auto" in capsys.readouterr().err


@pytest.mark.quick_seeds(2)
@pytest.mark.parametrize("seed", range(20))
def test_every_figure_is_that_of_the_edited_problem(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = Random(seed)
    data = drawn(rng)
    objective = rng.choice(("closed", "closed", "simulated"))
    path = tmp_path / "problem.yaml"
    path.write_text(yaml.safe_dump(data))
    search = ("--objective", objective, "--jobs", "1", "--json")
    assert main(["whatif", str(path), *OPTIONS, *search]) == 0
    told = json.loads(capsys.readouterr().out)
    ensure_fits(told, "whatif")
    assert told["objective"] == objective
    rows = {row["change"]: row for row in told["rows"]}
    edited = by_hand(data)
    assert list(rows) == list(edited)
    value = "iteration_time_s" if objective == "simulated" else "closed_form_s"
    base = rows["as it is"][value]
    for change, variant in edited.items():
        path.write_text(yaml.safe_dump(variant))
        main(["plan", str(path), *search])
        alone, row = json.loads(capsys.readouterr().out), rows[change]
        assert [row[key] for key in SAME] == [alone[key] for key in SAME], change
        assert row["lower_bound_s"] == pytest.approx(alone["lower_bound_s"], rel=1e-9)
        assert row["cost"] == alone.get("cost")
        assert row["status"] == "optimal"
        assert row["gap"] <= 1e-6
        assert row["tokens_per_day"] == pytest.approx(86400 * alone["tokens_per_s"])
        assert row["against_base"] == pytest.approx(row[value] / base - 1)
        assert row["problem_digest"] == row["plan"]["problem_digest"]


def test_table_and_files(
    small: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["whatif", str(small / "problem.yaml"), "--drop-each"]
    command += ["--set", "clusters.fast.price_per_hour=7.5", "--jobs", "1"]
    files = ["--svg", "w.svg", "--csv", "w.csv", "--out", "w.json"]
    assert main([*command, *files]) == 0
    printed = capsys.readouterr().out
    for words in ("as it is", "without fast", "without slow", "+0.0%", "cost a"):
        assert words in printed
    data = json.loads(Path("w.json").read_text("utf-8"))
    ensure_fits(data, "whatif")
    with open("w.csv", encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert list(lines[0]) == [
        *("change", "status", "closed_form_s", "iteration_time_s", "against_base"),
        *("lower_bound_s", "gap", "tokens_per_s", "tokens_per_day", "cost_per_hour"),
        *("cost_per_iteration", "cost_per_trillion_tokens", "plan_changes", "reason"),
    ]
    for line, row in zip(lines, data["rows"], strict=True):
        assert line["change"] == row["change"]
        assert float(line["closed_form_s"]) == row["closed_form_s"]
        cost = row["cost"] or {"per_hour": None}
        assert line["cost_per_hour"] == ("" if cost["per_hour"] is None else "7.5")
    root = ElementTree.fromstring(Path("w.svg").read_text("utf-8"))
    texts = "".join(root.itertext())
    assert "without fast" in texts
    assert "cost of a trillion tokens" in texts


def test_a_variant_without_a_plan_says_why(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["whatif", str(small / "problem.yaml"), "--jobs", "1"]
    assert main([*command, "--set", "clusters.fast.memory=2 GB,pin.stages=1"]) == 0
    printed = capsys.readouterr().out
    assert "no plan: " not in printed
    assert main([*command, "--set", "training.reserve=99.9%", "--json"]) == 0
    _, row = json.loads(capsys.readouterr().out)["rows"]
    assert (row["status"], row["plan"], row["cost"]) == ("infeasible", None, None)
    assert row["reason"]
    assert main([*command, "--set", "training.reserve=99.9%"]) == 0
    assert "no plan: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "no change is asked for: give --drop-each, --add, --set or --sweep"),
        (["--set", "links.defualt.latency=1 ms"], "--set links.defualt.latency=1 ms: "),
        (["--add", "fats:1"], "(did you mean 'fast'?)"),
        (["--drop-each", "--solver", "uniapp"], "did you mean 'uniap'?"),
        (["--drop-each", "--svg", "problem.yaml"], "would replace"),
        (["--drop-each", "--time-limit", "0"], "--time-limit: '0' is not a number of"),
        (["--drop-each", "--csv", "x", "--out", "x"], "name two"),
    ],
)
def test_wrong_options_are_one_line(
    arguments: list[str],
    told: str,
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(small)
    try:
        code = main(["whatif", "problem.yaml", *arguments])
    except SystemExit as error:
        code = int(str(error.code))
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert told in captured.err
    assert captured.err.count("\n") == 1


def test_in_a_process_of_its_own(small: Path, run_process: RunHetopt) -> None:
    done = run_process("whatif", "problem.yaml", "--add", "fast:1", cwd=small)
    assert (done.returncode, done.stderr) == (0, "")
    assert "fast:+1" in done.stdout
