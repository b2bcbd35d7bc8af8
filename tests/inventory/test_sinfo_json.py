"""``sinfo --json``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hetopt.errors import InputError
from hetopt.inventory.reading import read_source
from hetopt.inventory.source import source_of
from tests.inventory.outcome import Case, check

H100 = "gpu:h100:8(S:0-1)"


def row(
    nodes: str,
    state: list[str] | str,
    gres: str,
    partition: str = "gpu",
    used: str = "",
) -> dict[str, Any]:
    """Return a row as data_parser v0.0.40 writes it, less what is never read."""
    names = nodes.split()
    return {
        "port": 6818,
        "node": {"state": state},
        "nodes": {
            "allocated": 0,
            "idle": len(names),
            "other": 0,
            "total": len(names),
            "hostnames": names,
            "addresses": names,
            "nodes": names,
        },
        "cpus": {"allocated": 0, "idle": 128, "other": 0, "total": 128},
        "memory": {"minimum": 1031000, "maximum": 1031000, "allocated": 0},
        "gres": {"total": gres, "used": used},
        "reason": {"description": "", "user": ""},
        "partition": {"name": partition, "alternate": "", "partition": {"state": []}},
        "cluster": "",
    }


def document(*rows: dict[str, Any]) -> str:
    return json.dumps(
        {
            "sinfo": rows,
            "meta": {"slurm": {"version": {"major": "23", "minor": "11"}}},
            "errors": [],
            "warnings": [],
        }
    )


CASES = [
    Case(
        id="two partitions of one kind each",
        text=document(
            row("a1 a2", ["IDLE"], "gpu:a100-80gb:8(S:0-1)", "a100"),
            row("h1", ["IDLE"], H100, "h100"),
        ),
        clusters=("a100-80gb: 2 x 8 A100-80GB", "h100: 1 x 8 H100"),
        left_out={},
    ),
    Case(
        id="drained and down",
        text=document(
            row("n1", ["IDLE"], H100),
            row("n2 n3", ["IDLE", "DRAIN"], H100),
            row("n4", ["DOWN", "DRAIN"], H100),
            row("n5", ["DOWN", "NOT_RESPONDING"], H100),
            row("n6", ["IDLE", "NOT_RESPONDING"], H100),
        ),
        clusters=("h100: 1 x 8 H100",),
        left_out={"drained": 2, "down": 2, "not responding": 1},
    ),
    Case(
        id="used",
        text=document(
            row("n1", ["ALLOCATED"], H100, used="gpu:h100:8(IDX:0-7)"),
            row("n2", ["MIXED"], H100, used="gpu:h100:2(IDX:0-1)"),
            row("n3", ["IDLE", "COMPLETING"], H100, used="gpu:h100:0(IDX:N/A)"),
            row("n4", ["IDLE"], H100, used="gpu:h100:1(IDX:3)"),
            row("n5", ["IDLE"], H100, used="gpu:h100:0(IDX:N/A)"),
        ),
        clusters=("h100: 1 x 8 H100",),
        left_out={"partly": 4},
    ),
    Case(
        id="planned, reserved, in maintenance",
        text=document(
            row("n1", ["IDLE", "PLANNED"], H100),
            row("n2", ["IDLE", "RESERVED"], H100),
            row("n3", ["IDLE", "MAINTENANCE"], H100),
            row("n4", ["IDLE"], H100),
        ),
        clusters=("h100: 1 x 8 H100",),
        left_out={"reserved": 3},
    ),
    Case(
        id="cloud nodes, on and off",
        text=document(
            row("c1 c2", ["IDLE", "CLOUD"], "gpu:l40s:4", "cloud"),
            row("c3 c4 c5", ["IDLE", "CLOUD", "POWERED_DOWN"], "gpu:l40s:4", "cloud"),
            row("c6", ["IDLE", "CLOUD", "POWERING_UP"], "gpu:l40s:4", "cloud"),
        ),
        clusters=("l40s: 2 x 4 L40S",),
        left_out={"powered": 4},
    ),
    Case(
        id="untyped, and without devices",
        text=document(
            row("g1", ["IDLE"], "gpu:4(S:0-1)"), row("c1 c2", ["IDLE"], "", "cpu")
        ),
        clusters=("devices: 1 x 4 ?",),
        left_out={"without": 2},
    ),
    Case(
        id="MIG",
        text=document(
            row("m1", ["IDLE"], "gpu:a100_1g.10gb:14(S:0-1)"),
            row("m2", ["IDLE"], "gpu:h100-80gb:7,gpu:h100_3g.40gb:2"),
            row("n1", ["IDLE"], "gpu:h100-80gb:8"),
        ),
        clusters=("h100: 1 x 8 H100",),
        left_out={"with devices cut into MIG": 2},
    ),
    Case(
        id="two kinds in one node",
        text=document(row("x1 x2", ["IDLE"], "gpu:a40:4(S:0),gpu:l40s:4(S:1)")),
        clusters=("or a40: 2 x 4 A40", "or l40s: 2 x 4 L40S"),
        left_out={"with several kinds": 2},
    ),
    Case(
        id="one node in many partitions, and names in ranges",
        text=document(
            row("gpu[01-04]", ["IDLE"], "gpu:h200:8", "long"),
            row("gpu[01-02]", ["IDLE"], "gpu:h200:8", "short"),
            row("gpu05", ["IDLE"], "gpu:h200:8", "short"),
        ),
        clusters=("h200-long: 4 x 8 H200", "h200-short: 1 x 8 H200"),
        left_out={},
    ),
    Case(
        id="state as a text",
        text=document(
            row("n1", "IDLE", "gpu:v100:4"), row("n2", "MIXED+DRAIN", "gpu:v100:4")
        ),
        clusters=("v100: 1 x 4 ? V100-16GB V100-32GB",),
        left_out={"drained": 1},
    ),
    Case(
        id="other resources beside devices",
        text=document(
            row("n1", ["IDLE"], "craynetwork:4,gpu:mi300x:8(S:0-1),nvme:no_consume:1T"),
            row("n2", ["IDLE"], "gpu:mi300x:no_consume:8,mps:800,shard:32"),
        ),
        clusters=("mi300x: 2 x 8 MI300X",),
        left_out={},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_inventories(case: Case) -> None:
    check(case, "sinfo --json")


def replaced(**changes: Any) -> str:
    return document(row("n1", ["IDLE"], H100) | changes)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (replaced(nodes={"nodes": ["a["]}), "f: sinfo.0.nodes.nodes: is 'a[', exp"),
        (replaced(nodes={"nodes": ["a b"]}), "f: sinfo.0.nodes.nodes: is 'a b', ex"),
        (
            replaced(gres={"total": "gpu:a:b:1"}),
            "f: sinfo.0.gres.total: is 'gpu:a:b:1', ",
        ),
        (document(), "f: holds no node (sinfo --json)"),
    ],
)
def test_malformed(text: str, error: str) -> None:
    with pytest.raises(InputError) as caught:
        read_source(source_of(text, "f"))
    assert str(caught.value).startswith(error)
