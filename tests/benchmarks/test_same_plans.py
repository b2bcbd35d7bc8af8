"""Two source trees are compared by what both settle."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import same_plans
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import SCHEDULE_CHOICES
from hetopt.problem.training.pins import Pins

if TYPE_CHECKING:
    from pathlib import Path

BEST = {
    "settled": True,
    "status": "optimal",
    "objective": "closed",
    "closed_form_s": 2.0,
    "iteration_time_s": 1.9,
    "lower_bound_s": 2.0,
    "plan": {"schedule": "1f1b"},
    "bounds": [[1, 2, 2.0]],
}
OPEN = BEST | {"settled": False, "status": "feasible", "lower_bound_s": 1.5}
FAILED = {"settled": True, "status": "failed", "says": "wrong"}


def test_drawn_problems_cover_what_can_be_asked() -> None:
    seeds = range(same_plans.DRAWN)
    drawn = [same_plans.drawn(seed) for seed in seeds]
    problems = [read_problem_text(json.dumps(data)) for data, _ in drawn]
    assert {each.training.schedule for each in problems} == {*SCHEDULE_CHOICES}
    seen: Counter[str] = Counter(" ".join(options) for _, options in drawn)
    for each in problems:
        seen["lengths"] += each.training.lengths is not None
        seen["three chunks"] += each.training.chunks == 3
        seen["experts"] += each.model.experts is not None
        seen["unequal nodes"] += any(own.unequal for own in each.clusters)
        seen["uplink"] += any(own.uplink_bytes_per_s for own in each.clusters)
        seen["offload"] += any(own.offload for own in each.clusters)
        seen["pins"] += each.pins != Pins()
        if each.links.default is None or None in each.links.pairs.values():
            seen["no link"] += 1
        for link in (each.links.default, *each.links.pairs.values()):
            if link is not None:
                seen["capacity"] += link.capacity_bytes_per_s is not None
                seen["no capacity"] += link.capacity_bytes_per_s is None
                seen["node"] += link.node_bytes_per_s is not None
                seen["connection"] += link.connection_bytes_per_s is not None
                seen["message"] += link.message_s > 0
    assert min(seen.values()) > 5, seen
    assert [same_plans.drawn(seed) for seed in seeds[::9]] == drawn[::9]


def test_each_tree_plans_with_its_own_code(tmp_path: Path) -> None:
    package = tmp_path / "hetopt"
    package.mkdir()
    (package / "__init__.py").touch()
    answer = {**BEST, "plan": {"table_digest": "x"}, "settlements": []}
    answer["search_time_s"] = 0.2
    (package / "__main__.py").write_text(f"print({json.dumps(answer)!r})")
    found = same_plans.found(tmp_path, tmp_path / "problem.yaml", [], 1.0)
    assert found == BEST | {"plan": {}, "bounds": []}


@pytest.mark.parametrize(
    ("before", "after", "code", "says"),
    [
        (BEST, BEST, 0, "1 of 1 the same"),
        (BEST, BEST | {"plan": {"schedule": "gpipe"}}, 1, "one: plan:"),
        (BEST, BEST | {"closed_form_s": 2.5}, 1, "one: closed_form_s:"),
        (BEST, BEST | {"lower_bound_s": 1.9}, 1, "one: lower_bound_s:"),
        (BEST, BEST | {"bounds": [[1, 2, 2.1]]}, 1, "one: bounds:"),
        (BEST, FAILED, 1, "one: status:"),
        (BEST, OPEN | {"plan": {}, "closed_form_s": 2.5}, 0, "1 not settled by both"),
        (BEST, OPEN | {"closed_form_s": 2.5}, 1, "one: closed_form_s:"),
        (BEST, OPEN | {"plan": {}, "closed_form_s": 1.8}, 1, "one: lower_bound_s:"),
        (OPEN, OPEN | {"lower_bound_s": 2.1}, 1, "one: lower_bound_s:"),
        (OPEN, FAILED, 1, "one: status:"),
        (OPEN, BEST | {"status": "infeasible", "plan": None}, 1, "one: status:"),
        (OPEN, BEST | {"plan": {}}, 0, "1 not settled by both"),
        (BEST | {"settled": False}, BEST | {"bounds": []}, 0, "1 of 1 the same"),
        (BEST | {"settled": False}, BEST | {"plan": {}}, 1, "one: plan:"),
    ],
)
def test_differences_are_named(
    before: dict[str, Any],
    after: dict[str, Any],
    code: int,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = [tmp_path / "old.json", tmp_path / "new.json"]
    for path, answer in zip(files, (before, after), strict=True):
        path.write_text(json.dumps({"one": answer}))
    assert same_plans.main(["compare", *map(str, files)]) == code
    assert says in capsys.readouterr().out
