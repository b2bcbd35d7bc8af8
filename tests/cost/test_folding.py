"""Tables of pairs of units."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hetopt.cost.build import build_table
from hetopt.cost.folding import PairTable, pair_columns, pairs_of
from hetopt.cost.table_file.file import table_digest, table_from_json, table_to_json
from hetopt.errors import InputError
from hetopt.problem.reading import read_problem_text

TEXT = """\
model: {layers: 8, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000, tied: true}
clusters:
  - {name: near, accelerator: A100-40GB, nodes: 1, devices_per_node: 2, inter_node:
      {bandwidth: 100 Gbps, latency: 5 us}, uplink: 50 Gbps}
  - {name: far, accelerator: A40, nodes: 1, devices_per_node: 2, inter_node:
      {bandwidth: 10 Gbps, latency: 5 us}}
links: {default: {bandwidth: 2 Gbps, latency: 50 us}}
training: {global_batch: 8, seq_len: 1024, schedule: zb-v}
"""
PROBLEM = read_problem_text(TEXT)


def test_pairs_are_as_far_from_the_embedding_as_from_the_head() -> None:
    units = ["embedding", "a", "b", "c", "d", "head"]
    assert pairs_of(units, ["x", "h", "h", "h", "y"]) == [
        ("embedding", "head"),
        ("a", "d"),
        ("b", "c"),
    ]


@pytest.mark.parametrize(
    ("units", "cuts", "message"),
    [
        (["e", "a", "b", "c", "h"], ["x"] * 4, "3 units between embedding and head"),
        (["e", "h"], ["x"], "0 units between"),
        (["e", *"abcd", "h"], [*"xyxxx"], "by y on the way down and by x on the way"),
    ],
)
def test_other_models_are_refused(
    units: list[str], cuts: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        pairs_of(units, cuts)


def test_a_pair_costs_what_its_units_do() -> None:
    table = build_table(PROBLEM)
    whole = build_table(PROBLEM.under("zb-h1"))
    names = [table.kinds[unit] for unit in table.units]
    assert names == ["embedding+head", *["layer+layer"] * 4]
    assert table.body[-2:] == (False, True)
    assert table.pairs is not None
    assert len(table.cuts) == len(table.units) - 1
    for part, other in zip(table.slices, whole.slices, strict=True):
        assert part.tied_ns is None
        assert other.tied_ns is not None
        assert np.array_equal(part.transfer_ns, 2 * other.transfer_ns)
        assert np.array_equal(part.occupancy_ns, 2 * other.occupancy_ns)
        assert part.shared is not None
        assert other.shared is not None
        assert np.array_equal(part.shared.uplink_ns, 2 * other.shared.uplink_ns)
        for own, before in zip(part.clusters, other.clusters, strict=True):
            assert isinstance(own, PairTable)
            for name, column in pair_columns(before, table.pairs).items():
                assert np.array_equal(getattr(own, name)[:, -2:], column)
                assert np.array_equal(getattr(own, name)[:, :-2], getattr(before, name))
            tau = before.round_trip_ns
            assert np.array_equal(own.round_trip_ns[:, -1], 2 * tau[:, 1])
            assert (own.handed_on_ns <= own.round_trip_ns).all()
            assert (own.fill_ns <= own.round_trip_ns).all()


def written() -> Any:
    """Return the table as a file has it."""
    return json.loads(json.dumps(table_to_json(build_table(PROBLEM))))


def test_a_table_survives_its_file() -> None:
    read = table_from_json(written(), problem=PROBLEM)
    assert table_digest(read) == table_digest(build_table(PROBLEM))
    for part in read.slices:
        assert all(isinstance(own, PairTable) for own in part.clusters)
    odd = replace(PROBLEM, model=replace(PROBLEM.model, layers=7))
    with pytest.raises(InputError, match="7 units between embedding and head"):
        build_table(odd)


def test_a_table_whose_pairs_are_not_its_units_is_refused() -> None:
    data = written()
    row = data["slices"][0]["clusters"][0]["strategies"][0]
    row["forward_ns"]["layer+layer"] += 1
    with pytest.raises(InputError, match=r"forward_ns.*the sum of its two units"):
        table_from_json(data)
    data = written()
    del data["pairs"]
    with pytest.raises(InputError, match="pairs"):
        table_from_json(data)
    for wrong in ([["layer"]], [], [["layer+layer", "layer"]]):
        data["pairs"] = wrong
        with pytest.raises(InputError, match="pairs"):
            table_from_json(data)


def test_plans_have_more_microbatches_than_stages() -> None:
    assert PROBLEM.stage_counts == (1, 2, 3, 4)
    assert all(q > p for p, q in PROBLEM.programs)
    assert (4, 8) in PROBLEM.programs
    assert (2, 2) not in PROBLEM.programs
