"""``hetopt plan --solver milp``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    RunHetopt = Callable[..., subprocess.CompletedProcess[str]]


def test_same_plan_as_cp_sat(planned: Path, run_process: RunHetopt) -> None:
    done = run_process(
        "plan",
        "problem.yaml",
        *("--solver", "milp", "--json", "--jobs", "1"),
        cwd=planned,
    )
    assert (done.returncode, done.stderr) == (0, "")
    printed = json.loads(done.stdout)
    assert printed["solver"] == "milp"
    assert printed["status"] == "optimal"
    expected = json.loads((planned / "plan.json").read_text())
    assert printed["plan"] == expected["plan"]


def test_warmups_that_follow_from_times(
    planned: Path, run_hetopt: RunHetopt, run_process: RunHetopt
) -> None:
    plans = []
    for run, solver in ((run_process, "milp"), (run_hetopt, "cp-sat")):
        done = run(
            "plan",
            "problem.yaml",
            *("--solver", solver, "--schedule", "h-1f1b", "--json", "--jobs", "1"),
            cwd=planned,
        )
        assert (done.returncode, done.stderr) == (0, "")
        plans.append(json.loads(done.stdout)["plan"])
    assert plans[0] == plans[1]
