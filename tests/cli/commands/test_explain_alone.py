"""``hetopt explain`` of one plan: every answer is that of the changed problem."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hetopt.cli import main
from tests.schemas import ensure_fits

DATA: dict[str, Any] = {
    "model": {"layers": 6, "hidden": 1024, "heads": 8, "ffn": 4096, "vocab": 32000},
    "clusters": [
        {
            "name": "fast",
            "accelerator": "A100-80GB",
            "nodes": 1,
            "devices_per_node": 2,
            "memory": "12 GB",
            "inter_node": {"bandwidth": "100 Gbps"},
        },
        {
            "name": "slow",
            "accelerator": "V100-32GB",
            "nodes": 1,
            "devices_per_node": 1,
            "inter_node": {"bandwidth": "1 Gbps"},
        },
    ],
    "links": {"default": {"bandwidth": "1 Gbps", "latency": "10 ms"}},
    "training": {"global_batch": 8, "seq_len": 1024, "precision": "fp16"},
}


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("site.yaml").write_text(yaml.safe_dump(DATA))


def planned(data: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> float:
    Path("other.yaml").write_text(yaml.safe_dump(data))
    assert main(["plan", "other.yaml", "--jobs", "1", "--json"]) == 0
    time_s: float = json.loads(capsys.readouterr().out)["closed_form_s"]
    return time_s


def changed(**values: Any) -> dict[str, Any]:
    first, second = DATA["clusters"]
    return {**DATA, "clusters": [{**first, **values}, second]}


def test_answers_are_those_of_the_changed_problems(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", "site.yaml", "--out", "plan.json", "--jobs", "1"]) == 0
    capsys.readouterr()
    command = ["explain", "site.yaml", "plan.json", "--jobs", "1"]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    ensure_fits(told, "reasons")
    shares = [each["share"] for each in told["critical"]]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1)
    answers = {
        (each["kind"], *each["clusters"]): each["closed_form_s"]
        for each in told["answers"]
    }
    used = {stage["cluster"] for stage in told["plan"]["pipelines"][0]["stages"]}
    assert used == {"fast"}
    wide = {"default": {"bandwidth": "2 Gbps", "latency": "10 ms"}}
    forced = {**DATA, "pin": {"clusters": {"slow": {"stages": 1}}}}
    assert answers == {
        ("memory", "fast"): planned(changed(memory="13 GB"), capsys),
        ("node", "fast"): planned(changed(nodes=2), capsys),
        ("link", "fast", "slow"): planned({**DATA, "links": wide}, capsys),
        ("unused", "slow"): planned(forced, capsys),
    }
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "Stage 0 on fast sets the pace: it is busy for" in printed
    chain = f"The longest chain of the simulated iteration: {shares[0]:.1%} passes of"
    assert chain in printed
    assert "slow is not used: the best plan that uses it takes" in printed
    assert "One more node of fast would save" in printed
    assert "Is mixing worth it?" in printed


def test_each_cluster_alone_is_a_problem_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The plan's own objective is that of the clusters alone; ``--out`` keeps it."""
    site = ["site.yaml", "--jobs", "1", "--json"]
    assert main(["plan", *site, "--objective", "simulated", "--out", "plan.json"]) == 0
    best = json.loads(capsys.readouterr().out)
    command = ["explain", "site.yaml", "plan.json", "--jobs", "1"]
    assert main([*command, "--json", "--out", "why.json"]) == 0
    printed = capsys.readouterr().out
    assert Path("why.json").read_text() == printed
    told = json.loads(printed)
    ensure_fits(told, "reasons")
    mixed = told["mixing"]
    assert mixed["objective"] == "simulated"
    assert mixed["time_s"] == pytest.approx(best["iteration_time_s"])
    rates = []
    for each, cluster in zip(mixed["alone"], DATA["clusters"], strict=True):
        Path("one.yaml").write_text(yaml.safe_dump({**DATA, "clusters": [cluster]}))
        one = ["plan", "one.yaml", "--jobs", "1", "--json"]
        assert main([*one, "--objective", "simulated"]) == 0
        own = json.loads(capsys.readouterr().out)
        assert each["cluster"] == cluster["name"]
        assert each["time_s"] == pytest.approx(own["iteration_time_s"])
        rates.append(8 * 1024 / own["iteration_time_s"])
    ratio = 8 * 1024 / best["iteration_time_s"] / sum(rates)
    assert mixed["hetero_speedup_ratio"] == pytest.approx(ratio)
    assert main([*command, "--out", "plan.json"]) == 2
    assert "plan.json" in capsys.readouterr().err


def test_another_objective_over_the_same_numbers_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pins = {"clusters": {"fast": {"stages": 1}, "slow": {"stages": 1}}}
    Path("site.yaml").write_text(yaml.safe_dump({**DATA, "pin": pins}))
    simulated = ["--objective", "simulated", "--jobs", "1"]
    assert main(["plan", "site.yaml", *simulated, "--out", "plan.json"]) == 0
    files = ["site.yaml", "plan.json"]
    assert main(["explain", *files, "--jobs", "1", "--out", "why.json"]) == 0
    told = json.loads(Path("why.json").read_text())
    assert told["closed_form_s"] != pytest.approx(told["iteration_time_s"])
    command = ["report", *files, "--explain", "why.json", "--out", "page.html"]
    assert main(command) == 0
    told["mixing"]["objective"] = "closed"
    Path("why.json").write_text(json.dumps(told))
    capsys.readouterr()
    assert main(command) == 2
    said = capsys.readouterr().err
    assert said.startswith("why.json: mixing.time_s: is ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "is_said"),
    [([], False), (["--for", "megatron"], True), (["--relax", "p4"], True)],
)
def test_clusters_alone_are_not_limited_as_the_plan_is(
    options: list[str], is_said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = ["plan", "site.yaml", "--jobs", "1", "--out", "plan.json"]
    assert main([*plan, *options]) == 0
    capsys.readouterr()
    assert main(["explain", "site.yaml", "plan.json", "--jobs", "1"]) == 0
    said = "Each cluster alone is planned for any launcher, with all principles kept."
    assert (said in " ".join(capsys.readouterr().out.split())) == is_said


def test_one_cluster_is_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    one = {**DATA, "clusters": DATA["clusters"][:1]}
    Path("one.yaml").write_text(yaml.safe_dump(one))
    command = ["explain", "one.yaml", "--jobs", "1"]
    assert main([*command, "--out", "why.json"]) == 0
    assert "mixing" not in capsys.readouterr().out
    assert json.loads(Path("why.json").read_text())["mixing"] is None


def test_a_plan_that_is_not_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    forced = {**DATA, "pin": {"clusters": {"slow": {"stages": 1}}}}
    Path("forced.yaml").write_text(yaml.safe_dump(forced))
    assert main(["plan", "forced.yaml", "--out", "plan.json", "--jobs", "1"]) == 0
    data = json.loads(Path("plan.json").read_text())
    assert main(["plan", "site.yaml", "--out", "own.json", "--jobs", "1"]) == 0
    own = json.loads(Path("own.json").read_text())["plan"]
    for key in ("problem_digest", "table_digest"):
        data["plan"][key] = own[key]
    Path("alone.json").write_text(json.dumps(data["plan"]))
    capsys.readouterr()
    assert main(["explain", "site.yaml", "alone.json", "--jobs", "1"]) == 0
    assert "Another plan takes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flag", "said"), [("--from", "is "), ("--table", "applies only to this problem")]
)
def test_options_of_mine_alone(
    flag: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "site.yaml", flag, "megatron"]) == 2
    assert f"{flag}: {said}" in capsys.readouterr().err


@pytest.mark.slow
def test_stability_is_told_and_kept(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["plan", "site.yaml", "--stability", "--jobs", "1", "--out", "plan.json"]
    assert main([*command, "--journal", "journal.jsonl", "--top", "2"]) == 0
    printed = capsys.readouterr().out
    assert (
        "how far each may move until another plan is better by more than 1%" in printed
    )
    assert "link fast-slow" in printed
    data = json.loads(Path("plan.json").read_text())
    ensure_fits(data, "result")
    assert {each["kind"] for each in data["stability"]} == {"speed", "memory", "link"}
    assert main(["check", "site.yaml", "plan.json"]) == 0


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (["--pareto"], "--stability: is of the best plan, and a front has many"),
        (["--table", "table.json"], "--table: has no rows for what stability changes"),
    ],
)
def test_stability_alone(
    others: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "site.yaml", "--stability", *others]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert "\n" not in error
