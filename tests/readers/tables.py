"""Readers of latency tables, and of the files that their times come from."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from hetopt.cost.build import build_table
from hetopt.cost.table_file.file import table_digest, table_from_json, table_to_json
from hetopt.problem.training.training import Training
from tests.cost.making import make_cluster, make_model, make_problem
from tests.readers.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.problem.training.choices import ScheduleName

#: One strategy of each cluster.
SMALL: dict[str, Any] = {
    "nodes": 1,
    "devices_per_node": 1,
    "max_tp": 1,
    "uplink_bytes_per_s": 1e9,
}


@cache
def table(
    schedule: ScheduleName, chunks: int = 1, clusters: tuple[str, ...] = ("a", "b")
) -> Any:
    """Return a small table."""
    problem = make_problem(
        tuple(make_cluster(name, **SMALL) for name in clusters),
        make_model(layers=4, tied=True),
        Training(
            global_batch=2,
            seq_len=1024,
            schedule=schedule,
            chunks=chunks,
            recompute=dict.fromkeys(clusters, ("none",)),
        ),
    )
    return json.loads(json.dumps(table_to_json(build_table(problem))))


def numbered(data: Any) -> Any:
    """Return a table with round numbers, which no cost model changes."""
    if isinstance(data, list):
        return [numbered(each) for each in data]
    if not isinstance(data, dict):
        return data
    return {
        key: _round(value, NUMBERS[key]) if key in NUMBERS else numbered(value)
        for key, value in data.items()
    }


def _round(value: Any, number: Any) -> Any:
    if isinstance(value, list):
        return [_round(each, number) for each in value]
    return dict.fromkeys(value, number) if isinstance(value, dict) else number


NUMBERS = {
    "problem_digest": "0" * 64,
    "model_flops": 1e12,
    "usable_bytes": 10**10,
    "transfer_ns": 20,
    "occupancy_ns": 10,
    "tied_ns": 5,
    "uplink_ns": 3,
    "within_ns": 0,
    "fixed_bytes": 7,
    "sync_ns": 7,
    "forward_ns": 10,
    "backward_ns": 30,
    "state_bytes": 40,
    "activation_bytes": 50,
    "temporary_bytes": 60,
    "sync_unit_ns": 70,
    "weight_ns": 10,
    "weight_bytes": 80,
}


def read(data: Any) -> str:
    """Return a table's digest."""
    return table_digest(table_from_json(data, file="t.json"))


#: Lists that other values lie along, and names that others refer to.
ELSEWHERE = {
    "units": r"cuts: is 5 cuts, expected \d",
    "clusters": r"layouts\.1\.cluster: is b, expected one of a",
    "layouts": r"transfer_ns\.0: is a list of \d, expected \d entr",
    "microbatches": r"slices: is .* expected ascending micro-batch counts",
    "chunks": r"micro-batches in flight take up to",
    "pairs": r"forward_ns: is wrong for a pair",
    **dict.fromkeys(
        ("kinds", "cut_classes", "tensors", "name"), r": is \w+, expected one of "
    ),
}
ELSEWHERE["kinds"] += r"|body: is a list of 3, expected 2"


def reader(name: str, document: Callable[[], Any], **fields: Any) -> Reader:
    return Reader(
        name=name, document=document, read=read, elsewhere=ELSEWHERE, **fields
    )


READERS = (
    reader("table", lambda: numbered(table("zb-h1"))),
    reader(
        "table-chunks",
        lambda: numbered(table("interleaved-1f1b", 2)),
        within=(("chunks",), ("way_back",)),
    ),
    reader("table-pairs", lambda: table("zb-v"), within=(("pairs",),)),
    reader(
        "table-per-unit",
        lambda: numbered(table("gpipe", 1, ("a",))),
        within=(("per_unit",),),
        closed=("layouts", "clusters"),
    ),
)
