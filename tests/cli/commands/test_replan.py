"""``hetopt replan`` at the command line: files that fit each other, and refusals."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from hetopt.cli import main
from hetopt.plans.plan import Plan
from hetopt.problem.cluster.nodes import Device
from hetopt.problem.reading import read_problem
from hetopt.replanning.layouts import layout_of
from hetopt.replanning.nodes import nodes_of
from tests.schemas import ensure_fits

TEXT = """\
model: {layers: 6, hidden: 1024, heads: 8, ffn: 4096, vocab: 4000}
clusters:
  - {name: a, accelerator: A100-40GB, nodes: 3, devices_per_node: 2,
     price_per_hour: 3, inter_node: {bandwidth: 100 Gbps}}
latency: {a: roofline}
training: {global_batch: 12, seq_len: 8192, zero: 0, schedule: 1f1b}
"""
JOBS = ("--jobs", "1", "--solver", "dp")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a problem and the plan that ran."""
    folder = tmp_path_factory.mktemp("ran")
    (folder / "p.yaml").write_text(TEXT)
    out = str(folder / "plan.json")
    assert main(["plan", str(folder / "p.yaml"), *JOBS, "--out", out]) == 0
    return folder


def replan(ran: Path, *options: str) -> int:
    """Run the command on what ran."""
    given = [str(ran / "p.yaml"), str(ran / "plan.json"), *JOBS]
    return main(["replan", *given, *options])


def test_files_fit_each_other(
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(tmp_path / name) for name in ("next.json", "left.yaml", "moves.csv")]
    files = ("--out", names[0], "--problem-out", names[1], "--moves", names[2])
    lost = ("--lost", "a/0:0", "--iterations", "50", "--checkpoint-bandwidth", "1 GB/s")
    assert replan(ran, *lost, *files, "--json") == 0
    printed = capsys.readouterr()
    assert "price_per_hour is dropped" in printed.err
    data = json.loads(printed.out)
    ensure_fits(data, "replan")
    assert data["gap"] < 0.02
    assert data["total_s"] == data["candidates"][0]["total_s"]
    assert data["total_s"] == min(each["total_s"] for each in data["candidates"])
    assert main(["check", names[1], names[0]]) == 0
    rows = list(csv.DictReader(Path(names[2]).read_text().splitlines()))
    moved = sum(int(row["bytes"]) for row in rows)
    assert moved == data["candidates"][0]["moved_bytes"]
    sent = [each["inside_bytes"] + each["beyond_bytes"] for each in data["senders"]]
    assert moved == sum(sent)
    assert not any("a-node-1:0" in (row["from"], row["to"]) for row in rows)
    # Exporters put the next plan's ranks where the moves bring its states.
    problem = read_problem(names[1])
    nodes = nodes_of(problem)
    plan = Plan.from_json(json.loads(Path(names[0]).read_text())["plan"])
    layout = layout_of(problem, plan, nodes)
    assert [
        [[_before(device).name for device in own] for own in stages]
        for stages in layout
    ] == data["ranks"]


def _before(device: Device) -> Device:
    """Return a device as it was numbered before its node lost the first one."""
    return device._replace(number=device.number + (device.host == "a-node-1"))


def test_nothing_moves_where_nothing_needed_is_lost(
    ran: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replan(ran, "--added", "a/new", "--iterations", "1", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    # One iteration pays for no move: the old plan stays, on its own devices.
    best = data["candidates"][0]
    assert best["moved_bytes"] == 0
    assert data["status"] == "feasible"
    assert replan(ran, "--added", "a/new", "--iterations", "100000", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["candidates"][0]["moved_bytes"] > 0
    assert 1 < data["pays_after"] < 100_000
    assert replan(ran, "--added", "a/new", "--iterations", "100000") == 0
    printed = capsys.readouterr().out
    assert "iterations on" in printed
    assert "in all" in printed


@pytest.mark.slow
def test_other_pipelines_are_a_change_though_nothing_moves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One pipeline of two is left: its processes start again all the same."""
    fleet = """\
model: {layers: 6, hidden: 1024, heads: 8, ffn: 4096, vocab: 4000}
clusters:
  - {name: a, accelerator: A100-40GB, nodes: 2, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps}}
  - {name: b, accelerator: H100, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps}}
links: {default: {bandwidth: 100 Gbps, latency: 5 us}}
training: {global_batch: 12, seq_len: 8192, zero: 0, schedule: 1f1b}
pin: {clusters: {b: {tp: 1}}}
"""
    (tmp_path / "p.yaml").write_text(fleet)
    files = [str(tmp_path / "p.yaml"), str(tmp_path / "plan.json")]
    side_by_side = ["--pipelines", "2", "--jobs", "1"]
    assert main(["plan", files[0], *side_by_side, "--out", files[1]]) == 0
    assert "2 pipelines" in capsys.readouterr().out
    lost = ["--lost", "b", "--added", "b/n7", "--restart", "1000"]
    asked = ["--iterations", "500", "--json"]
    assert main(["replan", *files, *lost, *asked, *side_by_side]) == 0
    data = json.loads(capsys.readouterr().out)
    for each in data["candidates"]:
        assert each["total_s"] >= 500 * each["closed_form_s"] + 1000


def test_what_is_rented_is_that_of_the_plan_that_stays(
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, out = str(tmp_path / "left.yaml"), str(tmp_path / "next.json")
    added = ("--added", "a/new", "--iterations", "1", "--pipelines", "2")
    assert replan(ran, *added, "--problem-out", problem, "--out", out) == 0
    cost = json.loads(Path(out).read_text())["cost"]
    # The quickest plan rents the fourth node, too.
    assert cost["nodes"] == {"a": 3}
    assert main(["check", problem, out]) == 0
    capsys.readouterr()


def test_staying_may_be_better_than_the_fastest_plan(tmp_path: Path) -> None:
    """Of the devices that have its states, for one iteration; claims name both."""
    names = [str(tmp_path / name) for name in ("p.yaml", "plan.json", "next.json")]
    left = str(tmp_path / "left.yaml")
    Path(names[0]).write_text(
        """
model: {layers: 4, hidden: 512, heads: 4, ffn: 1024, vocab: 1000, tied: false}
clusters:
  - {name: a, accelerator: A40, nodes: 1, devices_per_node: 3,
     inter_node: {bandwidth: 100 Gbps}}
  - {name: b, accelerator: A40, nodes: 1, devices_per_node: 3,
     inter_node: {bandwidth: 100 Gbps}}
links: {default: {bandwidth: 1 Gbps, latency: 0.1 ms}}
training: {global_batch: 6, seq_len: 512, precision: bf16, zero: 0, schedule: 1f1b}
pin: {stages: 1}
launcher: megatron
"""
    )
    assert main(["plan", names[0], *JOBS, "--out", names[1]]) == 0
    change = ["--lost", "a/0:0", "--out", names[2], "--problem-out", left, *JOBS]
    times = []
    for iterations in ("1", "1000000"):
        asked = ["replan", *names[:2], *change, "--iterations", iterations]
        assert main(asked) == 0
        assert main(["check", left, names[2]]) == 0
        times.append(json.loads(Path(names[2]).read_text())["closed_form_s"])
    assert times[0] > times[1]


@pytest.mark.slow
def test_the_next_plan_is_for_the_launcher(tmp_path: Path) -> None:
    """It is that of the problem after the change, and any plan if that is asked for."""
    names = [str(tmp_path / name) for name in ("p.yaml", "plan.json", "next.json")]
    left = str(tmp_path / "left.yaml")
    text = TEXT.replace("vocab: 4000", "vocab: 4000, tied: false")
    for launcher, options in (("", ("--for", "hetu")), ("launcher: hetu\n", ())):
        Path(names[0]).write_text(text + launcher)
        assert main(["plan", names[0], *JOBS, *options, "--out", names[1]]) == 0
        change = ["--lost", "a/2", "--iterations", "50", "--out", names[2]]
        asked = ["replan", *names[:2], *change, "--problem-out", left, *JOBS]
        assert main(asked) == 0
        found = json.loads(Path(names[2]).read_text())
        assert found["launch"]["launcher"] == "hetu"
        assert main(["check", left, names[2]]) == 0
        assert main([*asked, "--for", "none"]) == 0
        assert "launch" not in json.loads(Path(names[2]).read_text())
        again = ["plan", left, *JOBS, *options, "--out", names[1]]
        assert main(again) == 0
        best = json.loads(Path(names[1]).read_text())
        assert found["lower_bound_s"] <= best["closed_form_s"] <= found["closed_form_s"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--lost", "a/7"), "no such node"),
        (("--lost", "a"), "leaves no device"),
        ((), "nothing changes"),
        (("--lost", "a/0", "--pipelines", "9"), "expected 1 to 4"),
        (("--lost", "a/0", "--restart", "-1"), "at least 0"),
        (("--lost", "a/0", "--checkpoint-bandwidth", "3"), "bandwidth"),
        (("--lost", "a/0", "--checkpoint-bandwidth", "0 GB/s"), "at least 1 B/s"),
        (("--lost", "a/0", "--iterations", "9" * 400), "is more than"),
        (("--lost", "a/0", "--solver", "dfs"), "--solver: solver dfs does not race"),
    ],
)
def test_refused_in_one_line(
    ran: Path,
    options: tuple[str, ...],
    why: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    try:
        code: Any = replan(ran, "--iterations", "5", *options)
    except SystemExit as error:
        code = error.code
    assert code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert why in line
