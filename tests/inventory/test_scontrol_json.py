"""``scontrol show nodes --json``, and ``sinfo --json`` before Slurm 23.02."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hetopt.errors import InputError
from hetopt.inventory.reading import read_source
from hetopt.inventory.source import source_of
from tests.inventory.outcome import Case, check


def node(name: str, state: list[str] | str, gres: str, **more: Any) -> dict[str, Any]:
    """Return a node as data_parser v0.0.40 writes it, less what is never read."""
    return {
        "architecture": "x86_64",
        "boards": 1,
        "boot_time": {"set": True, "infinite": False, "number": 1720820315},
        "cores": 32,
        "cpus": 128,
        "features": ["ib"],
        "gpu_spec": "",
        "gres": gres,
        "gres_drained": "N/A",
        "gres_used": "",
        "name": name,
        "address": name,
        "hostname": name,
        "state": state,
        "operating_system": "Linux 6.5.0-44-generic #44-Ubuntu SMP PREEMPT_DYNAMIC",
        "partitions": ["gpu"],
        "real_memory": 1031000,
        "reason": "",
        "reservation": "",
        "alloc_cpus": 0,
        "tres": "cpu=128,mem=1031000M,billing=128",
        "tres_used": "",
        **more,
    }


def document(*nodes: dict[str, Any]) -> str:
    return json.dumps(
        {
            "nodes": nodes,
            "last_update": {"set": True, "number": 1722009794},
            "meta": {"plugin": {"data_parser": "data_parser/v0.0.40"}},
            "errors": [],
        }
    )


A100 = "gpu:a100_sxm4_40gb:4(S:0-3)"

CASES = [
    Case(
        id="one kind",
        text=document(node("n1", ["IDLE"], A100), node("n2", ["IDLE"], A100)),
        clusters=("a100-40gb: 2 x 4 A100-40GB",),
        left_out={},
    ),
    Case(
        id="drained and down",
        text=document(
            node("n1", ["IDLE", "DRAIN"], A100, reason="ECC errors, see ticket = 12"),
            node("n2", ["MIXED", "DRAIN"], A100),
            node("n3", ["DOWN"], A100),
            node("n4", ["DOWN", "NOT_RESPONDING"], A100),
            node("n5", ["IDLE"], A100),
        ),
        clusters=("a100-40gb: 1 x 4 A100-40GB",),
        left_out={"drained": 2, "down": 2},
    ),
    Case(
        id="used, by state, by gres_used, by tres_used",
        text=document(
            node("n1", ["MIXED"], A100, gres_used="gpu:a100_sxm4_40gb:0(IDX:N/A)"),
            node("n2", ["ALLOCATED"], A100),
            node("n3", ["IDLE"], A100, gres_used="gpu:a100_sxm4_40gb:1(IDX:0)"),
            node("n4", ["IDLE"], A100, tres_used="cpu=1,gres/gpu=2"),
            node("n5", ["IDLE"], A100, gres_used="gpu:a100_sxm4_40gb:0(IDX:N/A)"),
        ),
        clusters=("a100-40gb: 1 x 4 A100-40GB",),
        left_out={"partly": 4},
    ),
    Case(
        id="before 23.02: a text, and flags beside it",
        text=document(
            node("n1", "idle", A100, state_flags=[]),
            node("n2", "idle", A100, state_flags=["DRAIN"]),
            node("n3", "mixed", A100, state_flags=["PLANNED"]),
            node("n4", "down", A100, state_flags=["DRAIN"]),
        ),
        clusters=("a100-40gb: 1 x 4 A100-40GB",),
        left_out={"drained": 1, "partly": 1, "down": 1},
    ),
    Case(
        id="untyped in GRES, typed in TRES",
        text=document(
            node("n1", ["IDLE"], "gpu:8", tres="cpu=1,gres/gpu=8,gres/gpu:h200=8"),
            node("n2", ["IDLE"], "gpu:8", tres="cpu=1,gres/gpu=8"),
        ),
        clusters=("h200: 1 x 8 H200", "devices: 1 x 8 ?"),
        left_out={},
    ),
    Case(
        id="no devices",
        text=document(
            node("c1", ["IDLE"], ""),
            node("c2", ["ALLOCATED"], "nvme:1"),
            node("g1", ["IDLE"], "gpu:a40:2(S:0)"),
        ),
        clusters=("a40: 1 x 2 A40",),
        left_out={"without": 2},
    ),
    Case(
        id="MIG",
        text=document(
            node("m1", ["IDLE"], "gpu:a100_7g.40gb:4"),
            node("m2", ["IDLE"], "gpu:3g.47gb:16(S:0-1)"),
            node("g1", ["IDLE"], "gpu:h100_80gb_hbm3:8"),
        ),
        clusters=("h100: 1 x 8 H100",),
        left_out={"with devices cut into MIG": 2},
    ),
    Case(
        id="two kinds in one node",
        text=document(
            node("x1", ["IDLE"], "gpu:h20_96gb:4(S:0),gpu:h800:4(S:1)"),
            node("g1", ["IDLE"], "gpu:h800:8"),
        ),
        clusters=(
            "h800-gpu-x8: 1 x 8 H800",
            "or h20-96gb: 1 x 4 H20-96GB",
            "or h800-gpu-x4: 1 x 4 H800",
        ),
        left_out={"with several kinds": 1},
    ),
    Case(
        id="partitions",
        text=document(
            node("n1", ["IDLE"], A100, partitions=["east", "all"]),
            node("n2", ["IDLE"], A100, partitions=["all", "west"]),
            node("n3", ["IDLE"], A100, partitions=["west"]),
            node("n4", ["IDLE"], A100, partitions=[]),
        ),
        clusters=(
            "a100-40gb-all: 2 x 4 A100-40GB",
            "a100-40gb-west: 1 x 4 A100-40GB",
            "a100-40gb: 1 x 4 A100-40GB",
        ),
        left_out={},
    ),
    Case(
        id="power saving, reboots, states hetopt does not know",
        text=document(
            node("n1", ["IDLE", "CLOUD", "POWERING_DOWN"], A100),
            node("n2", ["IDLE", "REBOOT_ISSUED"], A100),
            node("n3", ["IDLE", "QUANTUM"], A100),
            node("n4", ["FUTURE"], A100),
            node("n5", ["IDLE", "DYNAMIC_NORM"], A100),
        ),
        clusters=("a100-40gb: 1 x 4 A100-40GB",),
        left_out={"powered": 1, "about to be": 1, "in an unknown state": 2},
    ),
    Case(
        id="DCUs and NPUs",
        text=document(
            node("d1", ["IDLE"], "dcu:z100:4"), node("a1", ["IDLE"], "npu:910b3:8")
        ),
        clusters=("z100: 1 x 4 ?", "ascend-a2-64gb: 1 x 8 Ascend-A2-64GB"),
        left_out={},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_inventories(case: Case) -> None:
    check(case, "scontrol show nodes --json")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (document(node("n", [1], A100)), "f: nodes.0.state"),  # type: ignore[list-item]
        (document(node("n", ["IDLE"], "gpu:a:b:4")), "f: nodes.0.gres: is 'gpu:a:b:4"),
        (document(node("n n", ["IDLE"], A100)), "f: nodes.0.name: is 'n n', expected"),
        (document(), "f: holds no node (scontrol show nodes --json)"),
    ],
)
def test_malformed(text: str, error: str) -> None:
    with pytest.raises(InputError) as caught:
        read_source(source_of(text, "f"))
    assert str(caught.value).startswith(error)
