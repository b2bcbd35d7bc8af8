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


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            None,
            "weight_ns: is missing, but schedule zb-h1 needs it: build the table again",
        ),
        (10**9, "weight_ns.head: is 1000000000, expected at most half of backward_ns"),
    ],
)
def test_malformed_gradients_of_weights(value: int | None, message: str) -> None:
    _, data = with_weights()
    row = data["slices"][0]["clusters"][0]["strategies"][0]
    if value is None:
        del row["weight_ns"]
    else:
        row["weight_ns"]["head"] = value
    with pytest.raises(InputError) as caught:
        table_from_json(data, file="t.json")
    assert message in str(caught.value)


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


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("uplink_ns", [1], r"shared.uplink_ns: has lists of shape \[1\], expected"),
        ("uplink_ns", [1, -1], "shared.uplink_ns.1: is -1, expected at least 0"),
        (
            "link_ns",
            [[0, 1], [2, 0]],
            r"link_ns: is not symmetric at \[0, 1\], expected",
        ),
        ("link_ns", 3, "shared.link_ns: is 3, expected a list"),
    ],
)
def test_malformed_shares(key: str, value: Any, message: str) -> None:
    problem, table = with_uplinks()
    document = table_to_json(table)
    document["slices"][0]["shared"][key] = value
    with pytest.raises(InputError, match=message):
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
        (("schema",), "hetopt-table/2", "schema: is 'hetopt-table/2', exp"),
        (("schedule",), "zigzag", "schedule: is 'zigzag'"),
        (("problem_digest",), 3, "problem_digest: is 3, expected 64 hex"),
        (("kinds",), ["a", "a"], "kinds.1: is 'a' a s"),
        (("kinds", 0), 1, "kinds.0: is 1"),
        (("body",), [True], "body: has 1 entry, expected 5"),
        (("body", 1), 1, "body.1: is 1, expected true or false"),
        (("units", 2), "moe", "units.2: is 'moe', expected one of"),
        (("cuts",), [], "cuts: is 0 cuts"),
        (("tokens",), 0, "tokens: is 0, expected at least 1"),
        (("model_flops",), float("nan"), "model_flops: is nan"),
        (("model_flops",), -1.0, "model_flops: is -1.0"),
        (("clusters",), [], "clusters: has 0 entries"),
        (("clusters", 1, "name"), "a", "clusters.1: is 'a' a s"),
        (("clusters", 0, "devices"), 4, "max_stages: is 8, expected 1 to 4"),
        (("clusters", 0, "devices"), 0, "clusters.0.devices: is 0"),
        (("clusters", 0, "source"), "guessed", "clusters.0.source: is 'guess"),
        (("clusters", 0, "peak_flops"), True, "clusters.0.peak_flops: is true"),
        (("slices",), {}, "slices: is a mapping, expected"),
        (("slices", 0, "microbatches"), 4, "slices: is [4, 2, 4]"),
        (("slices", 0, "layouts", 0, "dp"), 3, "layout: is 0, expected the layout"),
        (("slices", 0, "layouts", 0, "cluster"), "c", "layouts.0: is 'c', exp"),
        (("slices", 0, "transfer_ns", 0, 0), [], "transfer_ns: has lists of diff"),
        (("slices", 0, "transfer_ns", 0, 0, 0), -1, "transfer_ns.0.0.0: is -1"),
        (("slices", 0, "transfer_ns", 0, 0, 0), 1.5, "transfer_ns.0.0.0: is 1.5"),
        (("slices", 0, "transfer_ns", 0, 0, 0), None, "0.0.0: is empty"),
        (("slices", 0, "transfer_ns", 0, 0, 0), 0, "occupancy_ns: is more than"),
        (("slices", 0, "occupancy_ns"), 3, "occupancy_ns: is 3, expected a list"),
        (
            ("slices", 0, "resharding", 0, 0, 0),
            "mail",
            "0.0.0: is 'mail', exp",
        ),
        (("slices", 0, "tied_ns"), [1], "tied_ns.0: is 1, expected"),
        (("slices", 0, "clusters", 0, "name"), "b", "clusters.0.name: is 'b'"),
        (("slices", 0, "clusters"), [], "slices.0.clusters: has 0 entr"),
        ((*STRATEGY, "dp"), 0, "strategies.0.dp: is 0"),
        ((*STRATEGY, "devices"), 2, "strategies.0.devices: is 2, expected dp"),
        ((*STRATEGY, "max_stages"), 9, "max_stages: is 9, expected 1 to 8"),
        ((*STRATEGY, "microbatch"), 0, "microbatch: is 0"),
        ((*STRATEGY, "microbatch"), 3, "microbatch: microbatch * dp"),
        ((*STRATEGY, "layout"), 10**6, "layout: is 1000000"),
        ((*STRATEGY, "recompute"), "some", "recompute: is 'some'"),
        ((*STRATEGY, "recompute"), ["none"], "recompute: is a list"),
        ((*STRATEGY, "fixed_bytes"), "1 GB", "fixed_bytes: is '1 GB'"),
        ((*STRATEGY, "forward_ns"), [1], "forward_ns: is a list, exp"),
        ((*STRATEGY, "forward_ns"), {}, "forward_ns.embedding: is missing"),
        ((*STRATEGY, "state_bytes", "head"), 10**17, "state_bytes.head: is"),
        ((*STRATEGY, "sync_ns"), float("inf"), "sync_ns: is inf"),
        (STRATEGY, 5, "strategies.0: is 5, expected a map"),
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


@pytest.mark.parametrize("key", sorted(DOCUMENT))
def test_every_key_is_needed(key: str) -> None:
    data = {name: value for name, value in DOCUMENT.items() if name != key}
    with pytest.raises(InputError, match=f"{key}: is missing"):
        table_from_json(data)


def test_a_repeated_strategy_is_refused() -> None:
    data = copy.deepcopy(DOCUMENT)
    rows = data["slices"][0]["clusters"][0]["strategies"]
    rows.append(rows[0])
    with pytest.raises(InputError, match="a repeated strategy"):
        table_from_json(data)


def test_a_table_of_another_problem_is_refused() -> None:
    other = make_problem(PROBLEM.clusters, make_model(layers=3), PROBLEM.training)
    with pytest.raises(DigestError, match="problem_digest: the table was made for"):
        table_from_json(DOCUMENT, problem=other)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "t.json:1: is not JSON"),
        (b"\xff\xfe\x00", "is not UTF-8"),
        (b"[]", "document: is a list, expected a mapping"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"null", "document: is empty"),
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
