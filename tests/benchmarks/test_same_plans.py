"""Two source trees are compared by what both settle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import same_plans
from hetopt.problem.reading import read_problem_text

if TYPE_CHECKING:
    from pathlib import Path

BEST = {"status": "optimal", "closed_form_s": 2.0, "plan": {"schedule": "1f1b"}}


def test_drawn_problems_are_problems() -> None:
    drawn = [same_plans.drawn(seed) for seed in range(20)]
    problems = [read_problem_text(json.dumps(data)) for data in drawn]
    assert len({problem.training.schedule for problem in problems}) > 3
    assert any(problem.pins.stages.allowed for problem in problems)
    assert drawn == [same_plans.drawn(seed) for seed in range(20)]


@pytest.mark.parametrize(
    ("after", "code", "says"),
    [
        (BEST, 0, "1 of 1 the same"),
        (BEST | {"plan": {"schedule": "gpipe"}}, 1, "one: plan:"),
        (BEST | {"closed_form_s": 2.5}, 1, "one: closed_form_s:"),
        ({"status": "failed", "says": "wrong"}, 1, "one: status:"),
        (BEST | {"status": "feasible", "plan": None}, 0, "1 not settled by both"),
    ],
)
def test_differences_are_named(
    after: dict[str, Any],
    code: int,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = [tmp_path / "old.json", tmp_path / "new.json"]
    for path, answer in zip(files, (BEST, after), strict=True):
        path.write_text(json.dumps({"one": answer}))
    assert same_plans.main(["compare", *map(str, files)]) == code
    assert says in capsys.readouterr().out
