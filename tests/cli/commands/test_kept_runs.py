"""Runs that a comparison kept, which somebody may have changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.comparing.kept_runs import KeptRuns
from hetopt.planning.side_by_side import Entry, run_apart
from hetopt.problem.reading import read_problem_text
from tests.cli.conftest import SMALL

if TYPE_CHECKING:
    from pathlib import Path


def test_a_plan_without_some_cluster_is_made_again(tmp_path: Path) -> None:
    problem = read_problem_text(SMALL)
    some = Entry(solver="dp", time_limit_s=60, jobs=1)
    run = run_apart(problem, some)
    assert run.plan is not None
    assert {stage.cluster for stage in run.plan.pipeline.stages} == {"fast"}
    every = replace(some, every_cluster=True)
    path, said = str(tmp_path / "runs.jsonl"), list[str]()
    kept = KeptRuns(path, said=said.append)
    for entry in (some, every):
        kept.add(problem, replace(run, entry=entry), 0.0)
    again = KeptRuns(path, said=said.append)
    found = again.find(problem, some)
    assert found is not None
    # What other programs took is a part of the run.
    assert found.run.taken_share == run.taken_share
    assert again.find(problem, every) is None
