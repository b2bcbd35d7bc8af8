"""Results of the release before are read as if they were written today."""

from __future__ import annotations

from typing import Any

import pytest

from hetopt.errors import InputError
from hetopt.results.before import renewed

RESULT = {"schema": "hetopt-result/1", "objective": "closed", "status": "optimal"}


def test_nodes_to_rent() -> None:
    fleets = [{"nodes": {"a": 1}, "bound_s": 0.3}, {"nodes": {"a": 2}, "bound_s": None}]
    spent = {"budget": 5.0, "min_tokens_per_s": None, "choices": 3, "fleets": fleets}
    data = {**RESULT, "spent": {**spent, "lower_bound": None}}
    limits = {"budget": 5.0, "min_tokens_per_s": None}
    claims = {
        "by": "fleets",
        "of": 3,
        "children": [
            {"at": {"a": 1}, "bound_s": 0.3},
            {"at": {"a": 2}, "bound_s": None},
        ],
    }
    over = [{"fleets": {"measure": "time", **limits}}]
    assert renewed(data) == {**RESULT, "over": over, "claims": claims}
    spent = {**spent, "lower_bound": 2e-4}
    found = renewed({**RESULT, "objective": "cost", "spent": spent})
    assert found["lower_cost"] == 2e-4
    assert found["over"][0]["fleets"]["measure"] == "cost"
    front = renewed({**data, "schema": "hetopt-front/1"})
    assert front["over"][0]["fleets"]["measure"] == "front"
    assert front["claims"] == claims


def test_pipelines() -> None:
    whole, two = [{"a": [1, 1, 1]}], [{"a": [1, 1]}, {"a": [1]}]
    bounds = [
        {"division": whole, "pipeline": 0, "batch": 8, "bound_s": 0.19},
        {"division": two, "pipeline": 0, "batch": 6, "bound_s": 0.15},
        {"division": two, "pipeline": 1, "batch": 3, "bound_s": 0.14},
    ]
    found = renewed(
        {**RESULT, "several": {"most": 2, "divisions": 2, "bounds": bounds}}
    )
    parts = [
        {"pipeline": 0, "batch": 6, "bound_s": 0.15},
        {"pipeline": 1, "batch": 3, "bound_s": 0.14},
    ]
    children = [{"at": whole, "bound_s": 0.19}, {"at": two, "parts": parts}]
    claims = {"by": "divisions", "of": 2, "children": children}
    over = [{"divisions": {"most": 2}}]
    assert found == {**RESULT, "over": over, "claims": claims}
    mixed = [{"division": two, "bound_s": 0.2}]
    found = renewed({**RESULT, "several": {"most": 2, "divisions": 2, "bounds": mixed}})
    assert found["claims"]["children"] == [{"at": two, "bound_s": 0.2}]


def test_schedules() -> None:
    def row(name: str, status: str, *known: float | None, **more: Any) -> Any:
        keys = dict(zip(("objective_s", "lower_bound_s"), known, strict=True))
        return {"schedule": name, "status": status, **keys, **more}

    rows = [
        row("1f1b", "optimal", 0.19, 0.18),
        row("h-1f1b", "refuted", None, 0.2, warmup_epsilon=0.05),
        row("gpipe", "infeasible", None, None),
        row("zb-h1", "unknown", None, None),
        row("interleaved-1f1b", "passed-over", None, None, chunks=2, reason="no"),
    ]
    variants = [
        {"schedule": name, "chunks": 1, "warmup_epsilon": epsilon}
        for name, epsilon in (
            ("1f1b", None),
            ("h-1f1b", 0.05),
            ("gpipe", None),
            ("zb-h1", None),
        )
    ]
    first, second, third, _ = variants
    children = [
        {"at": first, "bound_s": 0.18, "best_s": 0.19},
        {"at": second, "bound_s": 0.2},
        {"at": third, "bound_s": None},
    ]
    claims = {"by": "schedules", "of": 4, "children": children}
    over = [{"schedules": variants}]
    found = renewed({**RESULT, "schedules": rows})
    assert found == {**RESULT, "over": over, "claims": claims}


def test_all_else_stays_as_it_is() -> None:
    assert renewed(RESULT) == RESULT
    today = {**RESULT, "over": [{"launcher": "torch"}], "claims": {"bound_s": 1.0}}
    assert renewed(today) == today


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spent", None),
        ("spent", {"budget": 5.0}),
        ("several", {"bounds": [3]}),
        ("schedules", [{"schedule": "1f1b"}]),
        ("schedules", [3]),
    ],
)
def test_what_no_release_wrote_is_refused(key: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{key}: is not what releases before wrote"):
        renewed({**RESULT, key: value})
