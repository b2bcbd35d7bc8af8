"""``hetopt plan --relax`` and what reads the plan again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hetopt.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import RunHetopt


def test_a_relaxed_plan_says_so_and_holds(
    small: Path, run_hetopt: RunHetopt, run_process: RunHetopt
) -> None:
    done = run_process(
        *("plan", "problem.yaml", "--relax", "p4,p3", "--solver", "miqp-highs"),
        *("--jobs", "1", "--out", "relaxed.json"),
        cwd=small,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "with p3 and p4 relaxed" in done.stdout
    data = json.loads((small / "relaxed.json").read_text())
    assert data["relaxed"] == ["p3", "p4"]
    assert data["status"] == "optimal"
    pruned = run_hetopt("plan", "problem.yaml", "--json", cwd=small)
    assert data["closed_form_s"] <= json.loads(pruned.stdout)["closed_form_s"]
    assert "relaxed" not in json.loads(pruned.stdout)
    done = run_hetopt("check", "problem.yaml", "relaxed.json", cwd=small)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_plan_alone_must_keep_all_principles(
    small: Path, planned: Path, run_hetopt: RunHetopt
) -> None:
    plan = json.loads((planned / "plan.json").read_text())["plan"]
    stages = plan["pipelines"][0]["stages"]
    (small / "alone.json").write_text(json.dumps(plan))
    assert run_hetopt("check", "problem.yaml", "alone.json", cwd=small).returncode == 0
    # The same stage over and over again, with another mesh: P4 among what is wrong.
    stages.append({**stages[-1], "dp": stages[-1]["dp"] * 3})
    (small / "alone.json").write_text(json.dumps(plan))
    done = run_hetopt("check", "problem.yaml", "alone.json", cwd=small)
    assert done.returncode == 1
    assert "expected one (P4)" in done.stderr


def test_a_solver_of_the_pruned_space_refuses_in_one_line(
    small: Path, run_hetopt: RunHetopt
) -> None:
    for relax, message in (
        ("p3", "--relax: solver cp-sat cannot relax p3: use auto, dp, miqp-highs"),
        ("p4,p4-falling-tp", "--relax: p4 and p4-falling-tp exclude each other"),
        ("p2", "--relax: there is no 'p2', expected some of p3, p4, p4-falling-tp"),
    ):
        done = run_hetopt(
            *("plan", "problem.yaml", "--solver", "cp-sat", "--relax", relax), cwd=small
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(message)
        assert done.stderr.count("\n") == 1


def test_a_cost_of_milliseconds_is_verified_to_the_picosecond(tmp_path: Path) -> None:
    """The bound of a fleet that is refuted at the cutoff is some ps lower."""
    problem, out, cert = (tmp_path / name for name in ("p.yaml", "p.json", "p.cert"))
    problem.write_text(
        "model: {layers: 2, hidden: 512, heads: 4, ffn: 2048, vocab: 20000}\n"
        "clusters:\n"
        "- {name: mid, accelerator: H20-96GB, memory: 0.6 GB, overhead: 0 GB,"
        " nodes: 1, devices_per_node: 2, inter_node: {bandwidth: 10 Gbps},"
        " uplink: 1 Gbps, price_per_hour: 0.3}\n"
        "- {name: zed, accelerator: A100-80GB, memory: 0.45 GB, overhead: 0 GB,"
        " nodes: 2, devices_per_node: 2, inter_node: {bandwidth: 1 Gbps},"
        " offload: optimizer, price_per_hour: 3}\n"
        "links: {default: {bandwidth: 1 Gbps, latency: 2 ms}}\n"
        "training: {global_batch: 3, seq_len: 512, precision: fp16, schedule: h-1f1b,"
        " zero: 0, recompute: full}\n"
    )
    asked = ("--budget", "3.3", "--objective", "cost", "--relax", "p4", "--jobs", "1")
    files = ("--out", str(out), "--certificate", str(cert))
    assert main(["plan", str(problem), *asked, *files]) == 0
    assert main(["verify", str(problem), str(out), str(cert)]) == 0


#: A few layers on two devices, under some schedule.
ONE = """\
model: {preset: llama-7b, layers: %d}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 2}
training: {global_batch: 4, seq_len: 4096, schedule: %s}
"""


def test_no_stages_at_all_is_no_plan_of_the_wide_space_either(
    tmp_path: Path, run_hetopt: RunHetopt
) -> None:
    (tmp_path / "one.yaml").write_text(ONE % (2, "interleaved-1f1b, chunks: 2"))
    asked = "plan", "one.yaml", "--relax", "p3"
    for more in ((), ("--objective", "closed")):
        done = run_hetopt(*asked, *more, cwd=tmp_path)
        assert done.returncode == 1, done.stdout
        assert "no feasible plan with p3 relaxed: " in done.stderr


def test_certificates_are_of_the_schedule_that_the_launcher_runs(
    tmp_path: Path, run_hetopt: RunHetopt
) -> None:
    (tmp_path / "zb.yaml").write_text(ONE % (2, "zb-h1"))
    files = "--out", "plan.json", "--certificate", "proof.json"
    asked = "plan", "zb.yaml", "--relax", "p3", *files
    done = run_hetopt(*asked, cwd=tmp_path)
    assert done.returncode == 2
    assert "--certificate: covers schedules" in done.stderr
    done = run_hetopt(*asked, "--for", "nemo", "--time-limit", "5", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    done = run_hetopt("verify", "zb.yaml", "plan.json", "proof.json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
