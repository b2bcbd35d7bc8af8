"""``training.warmup_epsilon``: from the problem to the plan and all that read it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.cli import main
from tests.schemas import ensure_fits

if TYPE_CHECKING:
    from pathlib import Path

#: Boundaries inside a cluster take 6.3% of the slowest stage, the one between 15.8%.
PROBLEM = """\
model: {layers: 8, hidden: 4096, heads: 32, ffn: 16384, vocab: 32000}
clusters:
  - {name: fast, accelerator: H100, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
  - {name: slow, accelerator: A100-80GB, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
links: {default: {bandwidth: 50 Gbps, latency: 10 us}}
training: {global_batch: 16, seq_len: 1024, schedule: h-1f1b}
pin: {stages: 4, microbatches: 16}
"""


def with_epsilon(folder: Path, given: str) -> str:
    path = folder / f"problem-{given.replace('/', '-')}.yaml"
    path.write_text(PROBLEM.replace("h-1f1b", f"h-1f1b, warmup_epsilon: {given}"))
    return str(path)


def planned(problem: str, out: Path, *options: str) -> dict[str, Any]:
    asked = ["plan", problem, "--solver", "dp", "--jobs", "1", "--out", str(out)]
    assert main([*asked, *options]) == 0
    data: dict[str, Any] = json.loads(out.read_text())
    ensure_fits(data, "result")
    return data


def warmups(data: dict[str, Any]) -> list[int]:
    return [stage["warmup"] for stage in data["plan"]["pipelines"][0]["stages"]]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("given", "epsilon", "expected"),
    [("1/10", 0.1, [5, 4, 2, 1]), ("null", 0.05, [7, 5, 3, 1])],
)
def test_every_command_keeps_to_the_plans_epsilon(
    given: str,
    epsilon: float,
    expected: list[int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    problem = with_epsilon(tmp_path, given)
    out, certificate = tmp_path / "plan.json", tmp_path / "certificate.json"
    data = planned(problem, out, "--certificate", str(certificate))
    assert data["plan"]["warmup_epsilon"] == epsilon
    assert warmups(data) == expected
    assert f"h-1f1b (epsilon 1/{round(1 / epsilon)})" in capsys.readouterr().out
    # A problem that asks for another schedule or epsilon reads the plan as it is.
    for other in (problem, with_epsilon(tmp_path, "0.2")):
        capsys.readouterr()
        assert main(["check", other, str(out)]) == 0
        said = "not what the problem asks for, which is h-1" in capsys.readouterr().out
        assert said == (other != problem)
        assert main(["simulate", other, str(out)]) == 0
        assert main(["explain", other, str(out)]) == 0
    assert main(["verify", problem, str(out), str(certificate)]) == 0
    bundle = tmp_path / "bundle"
    arguments = ["export", problem, str(out), "--to", "torch", "--out", str(bundle)]
    assert main(arguments) == 0
    job = json.loads((bundle / "job.json").read_text())
    assert [stage["warmup"] for stage in job["stages"]] == expected


def test_warm_ups_of_another_epsilon_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plan.json"
    problem = with_epsilon(tmp_path, "0.05")
    data = planned(problem, out)
    for stage, count in zip(
        data["plan"]["pipelines"][0]["stages"], (5, 4, 2, 1), strict=True
    ):
        stage["warmup"] = count
    out.write_text(json.dumps(data))
    assert main(["check", problem, str(out)]) == 1
    assert "stage 0: warmup 5, h-1f1b gives 7" in capsys.readouterr().err
    for value, said in (
        (0.1, "problem_digest: the plan was made"),
        (0.03, "plan.warmup_epsilon: is 0.03, expected 1/n with a whole n"),
    ):
        data["plan"]["warmup_epsilon"] = value
        out.write_text(json.dumps(data))
        assert main(["check", problem, str(out)]) == 2
        assert said in capsys.readouterr().err


def test_the_best_schedule_tries_three_and_says_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "problem.yaml"
    path.write_text(PROBLEM)
    out = tmp_path / "plan.json"
    data = planned(str(path), out, "--schedule", "auto")
    (asked,) = data["over"]
    tried = [each for each in asked["schedules"] if each["schedule"] == "h-1f1b"]
    assert [each["warmup_epsilon"] for each in tried] == [0.05, 0.1, 0.01]
    printed = capsys.readouterr().out
    for name in ("h-1f1b (epsilon 1/20)", "(epsilon 1/10)", "(epsilon 1/100)"):
        assert name in printed
    assert main(["check", str(path), str(out)]) == 0
    fixed = with_epsilon(tmp_path, "1/10")
    tried = planned(fixed, out, "--schedule", "auto")["over"][0]["schedules"]
    assert [x["warmup_epsilon"] for x in tried if x["schedule"] == "h-1f1b"] == [0.1]


def test_a_what_if_changes_it(tmp_path: Path) -> None:
    """With another schedule the file's epsilon is left out."""
    out = tmp_path / "rows.json"
    asked = ["whatif", with_epsilon(tmp_path, "1/10"), "--solver", "dp", "--jobs", "1"]
    asked += ["--out", str(out)]
    assert main([*asked, "--sweep", "training.warmup_epsilon=0.05,0.1"]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert [row["change"] for row in rows][-2:] == [
        "training.warmup_epsilon=0.05",
        "training.warmup_epsilon=0.1",
    ]
    assert main([*asked, "--schedule", "1f1b", "--set", "training.zero=2"]) == 0
