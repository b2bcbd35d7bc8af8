"""``kubectl get nodes -o json``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hetopt.errors import InputError
from hetopt.inventory.grouping import group_nodes
from hetopt.inventory.reading import read_source
from hetopt.inventory.source import source_of
from hetopt.inventory.writing import summary
from tests.inventory.outcome import Case, check

PRODUCT = "nvidia.com/gpu.product"
MEMORY = "nvidia.com/gpu.memory"
A100 = {PRODUCT: "NVIDIA-A100-SXM4-80GB", MEMORY: "81920", "nvidia.com/gpu.count": "8"}
H100 = {PRODUCT: "NVIDIA-H100-80GB-HBM3", MEMORY: "81559", "nvidia.com/gpu.count": "8"}
NOT_READY = "node.kubernetes.io/not-ready:NoExecute"
GKE = "cloud.google.com/gke-accelerator"
EIGHT = {"nvidia.com/gpu": "8"}


def node(
    name: str,
    labels: dict[str, str] | None = None,
    devices: dict[str, str] | None = None,
    *,
    there: dict[str, str] | None = None,
    zone: str = "",
    taints: tuple[str, ...] = (),
    cordoned: bool = False,
    ready: str = "True",
) -> dict[str, Any]:
    """Return a node; a taint is ``key=value:effect``, ``there`` its capacity."""
    places = {"topology.kubernetes.io/zone": zone} if zone else {}
    spec: dict[str, Any] = {"podCIDR": "10.42.0.0/24", "providerID": f"cloud://{name}"}
    if cordoned:
        spec["unschedulable"] = True
        taints = (*taints, "node.kubernetes.io/unschedulable:NoSchedule")
    if taints:
        spec["taints"] = []
    for taint in taints:
        what, _, effect = taint.partition(":")
        key, _, value = what.partition("=")
        spec["taints"].append({"key": key, "effect": effect})
        if value:
            spec["taints"][-1]["value"] = value
    usual = {"cpu": "95690m", "memory": "1056270208Ki", "pods": "110"}
    devices = devices or {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": "6d2a",
            "labels": {"kubernetes.io/hostname": name, **places, **(labels or {})},
        },
        "spec": spec,
        "status": {
            "allocatable": {**usual, **devices},
            "capacity": {**usual, **(devices if there is None else there)},
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": ready, "reason": "KubeletReady"},
            ],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }


def document(*nodes: dict[str, Any]) -> str:
    return json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": nodes, "metadata": {}}
    )


CASES = [
    Case(
        id="two kinds of node",
        text=document(
            node("a1", A100, EIGHT), node("a2", A100, EIGHT), node("h1", H100, EIGHT)
        ),
        clusters=("a100-80gb: 2 x 8 A100-80GB", "h100: 1 x 8 H100"),
        left_out={},
    ),
    Case(
        id="cordoned, not ready, unreachable",
        text=document(
            node("n1", H100, EIGHT, cordoned=True),
            node("n2", H100, EIGHT, ready="False"),
            node("n3", H100, EIGHT, ready="Unknown"),
            node("n4", H100, EIGHT, taints=(NOT_READY,)),
            node("n5", H100, EIGHT),
        ),
        clusters=("h100: 1 x 8 H100",),
        left_out={"cordoned": 1, "not ready": 3},
    ),
    Case(
        id="no devices; none offered; some not offered",
        text=document(
            node("c1"),
            node("c2", devices={"nvidia.com/gpu": "0"}),
            node("n1", H100, {"nvidia.com/gpu": "0"}, there=EIGHT),
            node("n2", H100, {"nvidia.com/gpu": "7"}, there=EIGHT),
            node("n3", H100, EIGHT, there=EIGHT),
        ),
        clusters=("h100: 1 x 8 H100",),
        left_out={"without": 2, "with devices that are there": 2},
    ),
    Case(
        id="MIG, strategy single",
        text=document(
            node(
                "m1",
                {PRODUCT: "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", MEMORY: "9728",
                 "nvidia.com/mig.strategy": "single"},
                {"nvidia.com/gpu": "56"},
            ),
            node("m2", {PRODUCT: "NVIDIA-A100-SXM4-80GB-MIG-INVALID"}, EIGHT),
            node("n1", A100 | {"nvidia.com/mig.config": "all-disabled"}, EIGHT),
        ),
        clusters=("a100-80gb: 1 x 8 A100-80GB",),
        left_out={"with devices cut into MIG": 2},
    ),
    Case(
        id="MIG, strategy mixed",
        text=document(
            node("m1", A100, {"nvidia.com/gpu": "0", "nvidia.com/mig-3g.40gb": "16"}),
            node("m2", A100, {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "28"}),
            node("n1", A100, {**EIGHT, "nvidia.com/mig-1g.10gb": "0"}),
        ),
        clusters=("a100-80gb: 1 x 8 A100-80GB",),
        left_out={"with devices cut into MIG": 2},
    ),
    Case(
        id="shared",
        text=document(
            node("s1", {PRODUCT: "NVIDIA-L40S-SHARED"}, {"nvidia.com/gpu": "16"}),
            node("s2", {PRODUCT: "NVIDIA-L40S", "nvidia.com/gpu.replicas": "4"}, EIGHT),
            node("n1", {PRODUCT: "NVIDIA-L40S", "nvidia.com/gpu.replicas": "1"}, EIGHT),
        ),
        clusters=("l40s: 1 x 8 L40S",),
        left_out={"with devices shared": 2},
    ),
    Case(
        id="no labels: untyped",
        text=document(node("n1", {}, EIGHT), node("n2", {}, {"amd.com/gpu": "8"})),
        clusters=("devices: 2 x 8 ?",),
        left_out={},
    ),
    Case(
        id="memory tells which",
        text=document(
            node("n1", {PRODUCT: "NVIDIA-A100", MEMORY: "40960"}, EIGHT),
            node("n2", {PRODUCT: "NVIDIA-A100", MEMORY: "81920"}, EIGHT),
            node("n3", {PRODUCT: "NVIDIA-A100"}, EIGHT),
            node("n4", {PRODUCT: "NVIDIA-H20", MEMORY: "97871"}, EIGHT),
            node("n5", {PRODUCT: "NVIDIA-H100-NVL", MEMORY: "95830"}, EIGHT),
        ),
        clusters=(
            "a100-40gb: 1 x 8 A100-40GB",
            "a100-80gb: 1 x 8 A100-80GB",
            "nvidia-a100: 1 x 8 ? A100-40GB A100-80GB",
            "h20-96gb: 1 x 8 H20-96GB",
            "nvidia-h100-nvl: 1 x 8 ?",
        ),
        left_out={},
    ),
    Case(
        id="AMD, Huawei, GKE",
        text=document(
            node(
                "m1",
                {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
                 "amd.com/gpu.vram": "192G"},
                {"amd.com/gpu": "8"},
            ),
            node("a1", {}, {"huawei.com/Ascend910B": "8"}),
            node("a2", {}, {"huawei.com/Ascend910": "8"}),
            node("g1", {GKE: "nvidia-h200-141gb"}, EIGHT),
            node("g2", {GKE: "nvidia-rtx-pro-6000"}, EIGHT),
        ),
        clusters=(
            "mi300x: 1 x 8 MI300X",
            "ascend-a2-64gb: 1 x 8 Ascend-A2-64GB",
            "ascend910: 1 x 8 ?",
            "h200: 1 x 8 H200",
            "nvidia-rtx-pro-6000: 1 x 8 ?",
        ),
        left_out={},
    ),
    Case(
        id="zones",
        text=document(
            node("n1", H100, EIGHT, zone="eu-1a"),
            node("n2", H100, EIGHT, zone="eu-1b"),
            node("n3", H100, EIGHT, zone="eu-1a"),
        ),
        clusters=("h100-eu-1a: 2 x 8 H100", "h100-eu-1b: 1 x 8 H100"),
        left_out={},
    ),
    Case(
        id="two makers in one node",
        text=document(
            node("x1", A100, {"nvidia.com/gpu": "4", "huawei.com/Ascend910B": "4"})
        ),
        clusters=(
            "or a100-80gb: 1 x 4 A100-80GB",
            "or ascend-a2-64gb: 1 x 4 Ascend-A2-64GB",
        ),
        left_out={"with several kinds": 1},
    ),
    Case(
        id="one node, of kind Node",
        text=json.dumps(node("n1", H100, EIGHT)),
        clusters=("h100: 1 x 8 H100",),
        left_out={},
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_inventories(case: Case) -> None:
    check(case, "kubectl get nodes -o json")


def test_taints_are_remarked_on() -> None:
    usual = node("n1", H100, EIGHT, taints=("nvidia.com/gpu=present:NoSchedule",))
    own = node("n2", H100, EIGHT, taints=("team=ml:NoSchedule", "a:PreferNoSchedule"))
    reading = read_source(source_of(document(usual, own), "f"))
    lines = summary(group_nodes([reading]))
    assert "1 node needs a toleration of team=ml: n2" in lines
    assert any("does not say which devices pods use" in line for line in lines)


def changed(**changes: Any) -> str:
    return document({**node("n1", H100, EIGHT), **changes})


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            changed(kind="Pod"),
            "f: items.0.kind: is 'Pod', expected Node, as of kubectl",
        ),
        (
            document(node("n1", H100 | {MEMORY: "80GB"}, EIGHT)),
            f"f: items.0.metadata.labels.{MEMORY}: is '80GB', expected MiB",
        ),
        (
            document(node("n1", {"amd.com/gpu.vram": "many"}, {"amd.com/gpu": "8"})),
            "f: items.0.metadata.labels.amd.com/gpu.vram: is 'manyiB', expected",
        ),
        (document(node("n 1", H100, EIGHT)), "f: items.0.metadata.name: is 'n 1', exp"),
        (document(), "f: holds no node (kubectl get nodes -o json)"),
    ],
)
def test_malformed(text: str, error: str) -> None:
    with pytest.raises(InputError) as caught:
        read_source(source_of(text, "f"))
    assert str(caught.value).startswith(error)
