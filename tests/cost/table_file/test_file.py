from __future__ import annotations

import copy
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hetopt.cost.build import build_table
from hetopt.cost.table.table import CostTable
from hetopt.cost.table_file.file import (
    read_table,
    table_digest,
    table_from_json,
    table_to_json,
    write_table,
)
from hetopt.errors import DigestError, InputError
from hetopt.problem.problem import Problem
from hetopt.problem.training.training import Training
from tests.cost.making import make_cluster, make_model, make_problem, only

PROBLEM = make_problem(
    (make_cluster("a", nodes=1), make_cluster("b", "H20-96GB", nodes=1)),
    make_model(layers=2, granularity="block", tied=True),
    Training(global_batch=4, seq_len=1024, recompute={"a": ("none",), "b": ("full",)}),
)
TABLE = build_table(PROBLEM)
DOCUMENT = json.loads(json.dumps(table_to_json(TABLE)))


def test_round_trip_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    write_table(TABLE, path)
    again = read_table(path, PROBLEM)
    assert table_to_json(again) == table_to_json(TABLE)
    assert table_digest(again) == table_digest(TABLE)
    first, second = again.slices[0], TABLE.slices[0]
    assert first.layouts == second.layouts
    assert (first.resharding == second.resharding).all()
    assert first.clusters[1].forward_ns.dtype == second.clusters[1].forward_ns.dtype
    assert [item.name for item in tmp_path.iterdir()] == ["table.json"]


def with_weights() -> tuple[Problem, dict[str, Any]]:
    problem = PROBLEM.under("zb-h1")
    return problem, json.loads(json.dumps(table_to_json(build_table(problem))))


def test_gradients_of_weights_survive() -> None:
    problem, data = with_weights()
    again = table_from_json(data, problem=problem)
    assert table_to_json(again) == data
    for own in again.slices[0].clusters:
        assert own.weight_ns is not None
        assert (2 * own.weight_ns <= own.backward_ns).all()
        kinds = again.kinds.index("attention"), again.kinds.index("embedding")
        assert (own.weight_ns[:, kinds] > 0).all(axis=0).tolist() == [True, False]
    # Other schedules' tables have not changed.
    assert "weight_ns" not in DOCUMENT["slices"][0]["clusters"][0]["strategies"][0]


@pytest.mark.parametrize("epsilon", [None, 0.1, 0.01])
def test_the_epsilon_survives(epsilon: float | None) -> None:
    """A file without it was made when it was always 1/100."""
    problem = PROBLEM.under("h-1f1b", epsilon=epsilon)
    table = build_table(problem)
    data = table_to_json(table)
    assert data.get("warmup_epsilon", 0.01) == (epsilon or 0.05)
    assert table_from_json(data, problem=problem).warmup_epsilon == (epsilon or 0.05)
    assert "warmup_epsilon" not in DOCUMENT
    with pytest.raises(
        InputError, match=r"t.json: warmup_epsilon: is 0.03, expected 1"
    ):
        table_from_json({**data, "warmup_epsilon": 0.03}, file="t.json")
    with pytest.raises(InputError, match="warmup_epsilon: differs from the problem"):
        table_from_json({**data, "warmup_epsilon": 0.2}, problem=problem)


def with_uplinks() -> tuple[Problem, CostTable]:
    problem = replace(
        PROBLEM,
        clusters=tuple(
            replace(own, uplink_bytes_per_s=1e9) for own in PROBLEM.clusters
        ),
    )
    return problem, build_table(problem)


def test_what_boundaries_share_survives() -> None:
    problem, table = with_uplinks()
    again = table_from_json(table_to_json(table), problem=problem)
    for part, other in zip(table.slices, again.slices, strict=True):
        assert part.shared is not None
        assert other.shared is not None
        assert part.shared.uplink_ns.min() > 0
        assert (part.shared.uplink_ns == other.shared.uplink_ns).all()
        assert (part.shared.link_ns == other.shared.link_ns).all()


def test_a_link_takes_as_long_in_both_directions() -> None:
    problem, table = with_uplinks()
    document = table_to_json(table)
    document["slices"][0]["shared"]["link_ns"] = [[0, 1], [2, 0]]
    with pytest.raises(InputError, match=r"link_ns: is not symmetric at \[0, 1\], exp"):
        table_from_json(document, problem=problem)


def test_a_cluster_without_strategies_survives() -> None:
    problem = make_problem((make_cluster(), make_cluster("b", memory_bytes=10**6)))
    table = build_table(problem)
    again = table_from_json(table_to_json(table), problem=problem)
    assert again.slices[0].clusters[1].forward_ns.shape == (0, 3)
    assert table_digest(again) == table_digest(table)


def test_times_may_be_somebody_elses() -> None:
    data = copy.deepcopy(DOCUMENT)
    data["clusters"][0]["source"] = "measured"
    data["slices"][0]["clusters"][0]["strategies"][0]["forward_ns"]["mlp-up"] = 7
    table = table_from_json(data, problem=PROBLEM)
    assert table.sources[0] == "measured"
    assert table.slices[0].clusters[0].forward_ns[0][table.kinds.index("mlp-up")] == 7
    assert table_digest(table) != table_digest(TABLE)


def test_digest_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "from tests.cost.table_file.test_file import TABLE, table_digest;"
        "print(table_digest(TABLE))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert digests == {table_digest(TABLE)}


STRATEGY = ("slices", 0, "clusters", 0, "strategies", 0)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("clusters", 1, "name"), "a", "clusters.1: is 'a' a"),
        (("clusters", 0, "devices"), 4, "max_stages: is 8, expected 1 to 4"),
        (("slices", 0, "microbatches"), 4, "slices: is [4, 2, 4]"),
        (("slices", 0, "layouts", 0, "dp"), 3, "layout: is 0, expected the layout"),
        (("slices", 0, "clusters", 0, "name"), "b", "clusters.0.name: is 'b'"),
        ((*STRATEGY, "max_stages"), 9, "max_stages: is 9, expected 1 to 8"),
        ((*STRATEGY, "microbatch"), 3, "microbatch: microbatch * dp"),
        (("units", 2), "mlp-down", "units: differs from the problem"),
        (("schedule",), "gpipe", "schedule: differs from the problem"),
        (("slices", 0, "microbatches"), 3, "slices: is"),
    ],
)
def test_malformed_tables(
    path: tuple[str | int, ...], value: object, message: str
) -> None:
    data = copy.deepcopy(DOCUMENT)
    place: Any = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(InputError) as caught:
        table_from_json(data, file="t.json", problem=PROBLEM)
    assert str(caught.value).startswith("t.json: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_of_another_problem_is_refused() -> None:
    other = make_problem(PROBLEM.clusters, make_model(layers=3), PROBLEM.training)
    with pytest.raises(DigestError, match="problem_digest: the table was made for"):
        table_from_json(DOCUMENT, problem=other)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "t.json:1: is not JSON"),
        (b"\xff\xfe\x00", "is not UTF-8"),
        (b"[" * 100_000, "is nested too deeply"),
    ],
)
def test_files_that_are_no_table(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_table(path)
    assert message in str(caught.value)


def test_files_that_cannot_be_reached(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.json: no such file"):
        read_table(tmp_path / "missing.json")
    with pytest.raises(InputError, match="cannot be written"):
        write_table(TABLE, tmp_path / "no" / "table.json")


def test_forbidden_resharding_names_the_pin() -> None:
    pins = replace(PROBLEM.pins, resharding=only())
    with pytest.raises(InputError, match=r"pin\.resharding"):
        build_table(replace(PROBLEM, pins=pins))
