"""A search that is stopped at once still has a bound above 0, and a true one."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import yaml

import hetopt
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import FREE, SCHEDULES
from hetopt.results.result import Result

#: Seconds within which nothing is proven.
SOON_S = 1e-9
#: Keywords of ``hetopt.plan`` by name of a kind of search.
SEARCHES: dict[str, dict[str, Any]] = {
    **{name: {"schedule": name, "objective": "closed"} for name in SCHEDULES},
    **{name: {"solver": name} for name in ("cp-sat", "milp", "mcts", "dfs", "metis")},
    "interleaved-1f1b": {
        "schedule": "interleaved-1f1b",
        "chunks": 2,
        "objective": "closed",
    },
    "auto": {"schedule": "auto"},
    "simulated": {"objective": "simulated"},
    FREE: {"schedule": FREE, "objective": "simulated"},
    "p4": {"relax": ["p4"]},
    "p4-falling-tp": {"relax": ["p4-falling-tp"]},
    "p3": {"relax": ["p3"]},
    "p3,p4": {"relax": ["p3", "p4"]},
    "pipelines": {"pipelines": 2},
    "budget": {"budget": 30.0},
    "top": {"top": 3},
}
DATA: dict[str, Any] = {
    "model": {"layers": 4, "hidden": 512, "heads": 4, "ffn": 2048, "vocab": 1000},
    "clusters": [
        {
            "name": name,
            "accelerator": accelerator,
            "nodes": 2,
            "devices_per_node": 2,
            "inter_node": {"bandwidth": "100 Gbps"},
            "price_per_hour": 10,
        }
        for name, accelerator in (("red", "A100-80GB"), ("green", "H100"))
    ],
    "links": {"default": {"bandwidth": "10 Gbps", "latency": "1 ms"}},
    "training": {"global_batch": 4, "seq_len": 1024, "schedule": "1f1b"},
}
MIXED = {**DATA["training"], "lengths": {256: 0.5, 1024: 0.5}}


def problem(**changes: Any) -> Problem:
    return read_problem_text(yaml.safe_dump({**DATA, **changes}))


@cache
def proven(name: str) -> Result:
    found = hetopt.plan(problem(), jobs=1, **SEARCHES[name])
    assert found.best is not None
    return found


def ensure_bounded(late: Result, best: Result) -> None:
    assert best.best is not None
    value_s = best.best.time_s(best.objective)
    assert late.lower_bound_s is not None
    assert 0 < late.lower_bound_s <= value_s
    assert late.gap is None or late.gap < 1


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("name", SEARCHES)
def test_device_time_is_a_bound_at_once(name: str) -> None:
    late = hetopt.plan(problem(), jobs=1, time_limit_s=SOON_S, **SEARCHES[name])
    ensure_bounded(late, proven(name))


@pytest.mark.slow
def test_it_is_for_lengths_and_uniap_too() -> None:
    mixed = problem(training=MIXED)
    for pipelines in (1, 2):
        late, best = (
            hetopt.plan(mixed, pipelines=pipelines, jobs=1, time_limit_s=limit_s)
            # Simulated times of several lengths are never proven.
            for limit_s in (SOON_S, 2)
        )
        ensure_bounded(late, best)
    alone = problem(
        clusters=DATA["clusters"][:1],
        links={},
        training={**DATA["training"], "schedule": "gpipe"},
    )
    late = hetopt.plan(alone, solver="uniap", jobs=1, time_limit_s=SOON_S)
    ensure_bounded(late, hetopt.plan(alone, solver="uniap", jobs=1))
