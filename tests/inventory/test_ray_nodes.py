"""``json.dumps(ray.nodes())``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hetopt.errors import InputError
from hetopt.inventory.reading import read_source
from hetopt.inventory.source import source_of
from tests.inventory.outcome import Case, check


def node(
    address: str,
    resources: dict[str, float] | None = None,
    *,
    alive: bool = True,
    zone: str = "",
) -> dict[str, Any]:
    """Return a node as Ray 2.49 lists it; types without ``accelerator_type:``."""
    named = {
        name if name in ("CPU", "GPU", "NPU", "TPU") else f"accelerator_type:{name}": n
        for name, n in (resources or {}).items()
    }
    labels = {"ray.io/node-id": f"id{address}"}
    if zone:
        labels["ray.io/availability-zone"] = zone
    extra = {f"node:{address}": 1.0, "memory": 2e12, "object_store_memory": 2e11}
    return {
        "NodeID": address.encode().hex().rjust(56, "0"),
        "Alive": alive,
        "NodeManagerAddress": address,
        "NodeManagerHostname": f"host-{address}",
        "NodeManagerPort": 40211,
        "ObjectManagerPort": 8076,
        "MetricsExportPort": 51001,
        "alive": alive,
        "Resources": {"CPU": 96.0, **extra, **named} if alive else {},
        "Labels": labels,
    }


def document(*nodes: dict[str, Any]) -> str:
    return json.dumps(nodes)


CASES = [
    Case(
        id="two kinds of node",
        text=document(
            node("10.0.0.1", {"GPU": 8.0, "H100": 1.0}),
            node("10.0.0.2", {"GPU": 8.0, "H100": 1.0}),
            node("10.0.1.1", {"GPU": 4.0, "H200": 1.0}),
        ),
        clusters=("h100: 2 x 8 H100", "h200: 1 x 4 H200"),
        left_out={},
    ),
    Case(
        id="a head without devices",
        text=document(node("10.0.0.9"), node("10.0.0.1", {"GPU": 8.0, "L40S": 1.0})),
        clusters=("l40s: 1 x 8 L40S",),
        left_out={"without": 1},
    ),
    Case(
        id="a lost node",
        text=document(
            node("10.0.0.1", {"GPU": 8.0, "B200": 1.0}), node("10.0.0.2", alive=False)
        ),
        clusters=("b200: 1 x 8 B200",),
        left_out={"down": 1},
    ),
    Case(
        id="a node that came back",
        text=document(
            node("10.0.0.1", alive=False),
            node("10.0.0.1", {"GPU": 8.0, "H20": 1.0}),
            node("10.0.0.1", alive=False),
        ),
        clusters=("h20: 1 x 8 ? H20-96GB H20-141GB",),
        left_out={},
    ),
    Case(
        id="types with their memory",
        text=document(
            node("10.0.0.1", {"GPU": 8.0, "A100-40G": 1.0}),
            node("10.0.0.2", {"GPU": 8.0, "A100-80G": 1.0}),
            node("10.0.0.3", {"GPU": 8.0, "A100": 1.0}),
        ),
        clusters=(
            "a100-40gb: 1 x 8 A100-40GB",
            "a100-80gb: 1 x 8 A100-80GB",
            "a100: 1 x 8 ? A100-40GB A100-80GB",
        ),
        left_out={},
    ),
    Case(
        id="untyped",
        text=document(node("10.0.0.1", {"GPU": 2.0}), node("10.0.0.2", {"GPU": 2.0})),
        clusters=("devices: 2 x 2 ?",),
        left_out={},
    ),
    Case(
        id="several types in a node, of which Ray gives no counts",
        text=document(node("10.0.0.1", {"GPU": 6.0, "V100": 1.0, "A40": 1.0})),
        clusters=("or v100: 1 x ? ? V100-16GB V100-32GB", "or a40: 1 x ? A40"),
        left_out={"with several kinds": 1},
    ),
    Case(
        id="AMD, Ascend, TPU",
        text=document(
            node("10.0.0.1", {"GPU": 8.0, "AMD-Instinct-MI300X-OAM": 1.0}),
            node("10.0.0.2", {"NPU": 16.0, "Ascend910B": 1.0}),
            node("10.0.0.3", {"TPU": 4.0, "TPU-V4": 1.0}),
        ),
        clusters=(
            "mi300x: 1 x 8 MI300X",
            "ascend-a2-64gb: 1 x 16 Ascend-A2-64GB",
            "tpu-v4: 1 x 4 ?",
        ),
        left_out={},
    ),
    Case(
        id="shares of devices, and MIG",
        text=document(
            node("10.0.0.1", {"GPU": 0.5, "H100": 1.0}),
            node("10.0.0.2", {"GPU": 7.0, "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb": 1.0}),
            node("10.0.0.3", {"GPU": 8.0, "H100": 1.0}),
        ),
        clusters=("h100: 1 x 8 H100",),
        left_out={"with devices shared": 1, "with devices cut": 1},
    ),
    Case(
        id="zones",
        text=document(
            node("10.0.0.1", {"GPU": 8.0, "H800": 1.0}, zone="us-east-1a"),
            node("10.0.0.2", {"GPU": 8.0, "H800": 1.0}, zone="us-east-1b"),
            node("10.0.0.3", {"GPU": 8.0, "H800": 1.0}, zone="us-east-1a"),
        ),
        clusters=("h800-us-east-1a: 2 x 8 H800", "h800-us-east-1b: 1 x 8 H800"),
        left_out={},
    ),
    Case(
        id="names with spaces",
        text=document(node("10.0.0.1", {"GPU": 8.0, "NVIDIA H100 80GB HBM3": 1.0})),
        clusters=("h100: 1 x 8 H100",),
        left_out={},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_inventories(case: Case) -> None:
    check(case, "ray.nodes()")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            document(node("10.0.0.1 ")),
            "f: nodes.0.NodeManagerAddress: is '10.0.0.1 ', expected a host name",
        ),
        ("[{'NodeID': 'a'}]", "f:1: is not JSON: Expecting property name enclosed"),
        ("[]", "f: holds no node (ray.nodes())"),
        ("[1]", "f: is no inventory that hetopt knows, expected the output of one of"),
    ],
)
def test_malformed(text: str, error: str) -> None:
    with pytest.raises(InputError) as caught:
        read_source(source_of(text, "f"))
    assert str(caught.value).startswith(error)
