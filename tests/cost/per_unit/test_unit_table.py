"""The table's part for plans with a strategy per unit, and its way through a file."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.cost.build import build_table
from hetopt.cost.table_file.file import (
    read_table,
    table_digest,
    table_from_json,
    table_to_json,
    write_table,
)
from hetopt.errors import InputError
from tests.schemas import ensure_fits
from tests.solvers.units import problem, table

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.cost.table.table import UnitTable


def document() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(json.dumps(table_to_json(table())))
    return data


def per_unit() -> UnitTable:
    costs = table().per_unit
    assert costs is not None
    return costs


def test_strategies_are_replicated_or_sharded_meshes_of_equal_stages() -> None:
    for part in per_unit().slices:
        for strategy in part.clusters[0].strategies:
            assert 8 % strategy.devices == 0
            assert strategy.cp == 1
            assert strategy.zero == 0 or (strategy.zero == 3 and strategy.dp > 1)


def test_the_problem_s_zero_does_not_count() -> None:
    training = replace(problem().training, zero=2)
    other = build_table(replace(problem(), training=training))
    data = table_to_json(other)
    assert data["per_unit"] == table_to_json(table())["per_unit"]
    assert data["slices"] != table_to_json(table())["slices"]


def test_only_sharded_strategies_share_in_groups() -> None:
    training = replace(problem().training, zero=1, shard_group=2)
    grouped = build_table(replace(problem(), training=training)).per_unit
    assert grouped is not None
    found = []
    for part, whole in zip(grouped.slices, per_unit().slices, strict=True):
        own, other = part.clusters[0], whole.clusters[0]
        same = own.state_bytes == other.state_bytes
        wide = [each.zero == 3 and each.dp > 2 for each in own.strategies]
        assert [not row.all() for row in same] == wide
        found += wide
    assert any(found)


def test_replicated_strategies_cost_what_those_of_zero_0_do() -> None:
    assert problem().training.zero == 0
    for part in per_unit().slices:
        units = part.clusters[0]
        stages = table().at(part.microbatches).clusters[0]
        for row, strategy in enumerate(units.strategies):
            if strategy.zero:
                continue
            other = stages.strategies.index(replace(strategy, zero=None))
            for name in ("forward_ns", "backward_ns", "state_bytes", "sync_unit_ns"):
                first, second = getattr(units, name)[row], getattr(stages, name)[other]
                assert (first == second).all()


def test_other_problems_have_none() -> None:
    training = replace(problem().training, schedule="1f1b")
    other = build_table(replace(problem(), training=training))
    assert other.per_unit is None
    assert "per_unit" not in table_to_json(other)


def test_round_trip_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    write_table(table(), path)
    again = read_table(path, problem())
    assert table_to_json(again) == table_to_json(table())
    assert table_digest(again) == table_digest(table())
    ensure_fits(document(), "table")


def test_every_coefficient_counts_in_the_digest() -> None:
    data = document()
    strategy = data["per_unit"]["slices"][0]["clusters"][0]["strategies"][0]
    strategy["forward_ns"]["layer"] += 1
    assert table_digest(table_from_json(data)) != table_digest(table())


def change(data: dict[str, Any], path: list[Any], value: Any) -> None:
    for key in path[:-1]:
        data = data[key]
    if value is None:
        del data[path[-1]]
    else:
        data[path[-1]] = value


STRATEGY = ["per_unit", "slices", 0, "clusters", 0, "strategies", 0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ["per_unit", "edges", 1],
            {"first": 0, "second": 1, "tensor": "hidden"},
            "each once, ascending",
        ),
        (["per_unit", "slices", 0, "microbatches"], 4, "ascending micro-batch counts"),
        ([*STRATEGY, "microbatch"], 3, "is not the global batch"),
    ],
)
def test_broken_parts_are_named(path: list[Any], value: Any, message: str) -> None:
    data = copy.deepcopy(document())
    change(data, path, value)
    with pytest.raises(InputError, match=message):
        table_from_json(data, problem=problem())
