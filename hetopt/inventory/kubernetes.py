"""``kubectl get nodes -o json``.

Devices are those that a device plugin offers (``status.allocatable``). Their names are
in labels of NVIDIA's GPU feature discovery, of AMD's node labeller or of a cloud.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic import Field

from hetopt.inventory.gres import MIG_PROFILE
from hetopt.inventory.node import (
    INCOMPLETE,
    MIG,
    NO_DEVICE,
    SHARED,
    Devices,
    Node,
)
from hetopt.inventory.source import Lenient, parse
from hetopt.problem.quantity import parse_memory

if TYPE_CHECKING:
    from hetopt.inventory.source import Source

FORM = "kubectl get nodes -o json"
UNKNOWN = ("which devices pods use",)

#: Resources of makers' device plugins. Huawei's plugin has the chip in the name.
_RESOURCE = re.compile(
    r"(?P<maker>nvidia\.com|amd\.com|gpu\.intel\.com|metax-tech\.com)/(?:gpu|i915|xe)"
    r"|(?P<huawei>huawei\.com)/(?P<chip>Ascend\w+)"
    r"|(?P<other>habana\.ai/gaudi|cambricon\.com/mlu)"
)
_MIG_RESOURCE = "nvidia.com/mig-"
_NVIDIA_PRODUCT = "nvidia.com/gpu.product"
#: Maker of a resource -> labels with the name of its devices.
_PRODUCTS = {
    "nvidia.com": (_NVIDIA_PRODUCT, "cloud.google.com/gke-accelerator"),
    "amd.com": ("amd.com/gpu.product-name", "beta.amd.com/gpu.product-name"),
    "huawei.com": ("node.kubernetes.io/npu.chip.name",),
}
_NVIDIA_MEMORY = "nvidia.com/gpu.memory"
_AMD_MEMORY = ("amd.com/gpu.vram", "beta.amd.com/gpu.vram")
_ZONES = (
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
)
#: Taints that device plugins and operators recommend.
_USUAL_TAINTS = frozenset({"nvidia.com/gpu", "amd.com/gpu", "sku"})
_MIB = 2**20


class _Metadata(Lenient):
    name: str
    labels: dict[str, str] = Field(default_factory=dict)


class _Taint(Lenient):
    key: str
    value: str = ""
    effect: str


class _Spec(Lenient):
    unschedulable: bool = False
    taints: list[_Taint] = Field(default_factory=list)


class _Condition(Lenient):
    type: str
    status: str


class _Status(Lenient):
    allocatable: dict[str, str] = Field(default_factory=dict)
    capacity: dict[str, str] = Field(default_factory=dict)
    conditions: list[_Condition] = Field(default_factory=list)


class _Node(Lenient):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status


class _Document(Lenient):
    items: list[_Node]


def recognises(source: Source) -> bool:
    """Whether the file is a list of objects of Kubernetes, or one node."""
    data: Any = source.data
    return isinstance(data, dict) and "kind" in data and "apiVersion" in data


def read(source: Source) -> list[Node]:
    """Return the nodes; raises InputError."""
    data = source.data
    if data["kind"] == "Node":
        data = {"items": [data]}
    items = data.get("items")
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict) and item.get("kind", "Node") != "Node":
            msg = f"is {item['kind']!r}, expected Node, as of kubectl get nodes -o json"
            raise source.error(msg, field=f"items.{index}.kind")
    document = parse(_Document, source, data)
    return [_node(source, index, item) for index, item in enumerate(document.items)]


def _node(source: Source, index: int, node: _Node) -> Node:
    field = f"items.{index}"
    labels = node.metadata.labels
    devices = _devices(source, field, node)
    zone = next((labels[name] for name in _ZONES if labels.get(name)), None)
    taints = [
        f"{taint.key}={taint.value}" if taint.value else taint.key
        for taint in node.spec.taints
        if taint.effect != "PreferNoSchedule"
        and taint.key not in _USUAL_TAINTS
        and not taint.key.startswith("node.kubernetes.io/")
    ]
    return Node(
        host=source.host(node.metadata.name, field=f"{field}.metadata.name"),
        places=frozenset() if zone is None else frozenset({zone}),
        devices=devices,
        states=_states(node),
        left_out=_left_out(source, field, node, devices),
        remark=f"needs a toleration of {', '.join(taints)}" if taints else None,
    )


def _states(node: _Node) -> frozenset[str]:
    ready = [item.status for item in node.status.conditions if item.type == "Ready"]
    tainted = any(
        taint.key.startswith("node.kubernetes.io/")
        and taint.key != "node.kubernetes.io/unschedulable"
        and taint.effect != "PreferNoSchedule"
        for taint in node.spec.taints
    )
    there = {
        "not_ready": "True" not in ready or tainted,
        "cordoned": node.spec.unschedulable,
    }
    return frozenset(name for name, holds in there.items() if holds)


def _left_out(
    source: Source, field: str, node: _Node, devices: tuple[Devices, ...]
) -> str | None:
    labels, offered = node.metadata.labels, node.status.allocatable
    product = labels.get(_NVIDIA_PRODUCT, "")
    slices = [
        name
        for name in offered
        if name.startswith(_MIG_RESOURCE) and _count(source, field, node, name)
    ]
    there = sum(
        _count(source, field, node, name, "capacity")
        for name in node.status.capacity
        if _RESOURCE.fullmatch(name)
    )
    if not devices and not slices:
        return INCOMPLETE if there else NO_DEVICE
    if slices or MIG_PROFILE.search(product) or "-MIG-" in product:
        return MIG
    if product.endswith("-SHARED") or labels.get(
        "nvidia.com/gpu.replicas", "1"
    ) not in (
        "0",
        "1",
    ):
        return SHARED
    return INCOMPLETE if sum(item.count or 0 for item in devices) < there else None


def _devices(source: Source, field: str, node: _Node) -> tuple[Devices, ...]:
    labels = node.metadata.labels
    found: list[Devices] = []
    for name in node.status.allocatable:
        match = _RESOURCE.fullmatch(name)
        count = _count(source, field, node, name) if match else 0
        if match is None or not count:
            continue
        maker = match["maker"] or match["huawei"] or ""
        products = (labels.get(label) for label in _PRODUCTS.get(maker, ()))
        found.append(
            Devices(
                label=next(filter(None, products), match["chip"] or match["other"]),
                count=count,
                memory_bytes=_memory(source, field, node, maker),
            )
        )
    return tuple(found)


def _count(
    source: Source, field: str, node: _Node, name: str, part: str = "allocatable"
) -> int:
    """Return a node's number of devices of one name."""
    amount: str = getattr(node.status, part)[name]
    if not re.fullmatch(r"\d{1,6}", amount, re.ASCII):
        msg = f"is {amount!r}, expected a number of devices"
        raise source.error(msg, field=f"{field}.status.{part}.{name}")
    return int(amount)


def _memory(source: Source, field: str, node: _Node, maker: str) -> int | None:
    """Return the memory of one device: NVIDIA's label counts MiB, AMD's has a unit."""
    labels = node.metadata.labels
    where = f"{field}.metadata.labels"
    nvidia = labels.get(_NVIDIA_MEMORY)
    if maker == "nvidia.com" and nvidia is not None:
        if not re.fullmatch(r"\d{1,9}", nvidia, re.ASCII):
            msg = f"is {nvidia!r}, expected MiB such as 81920"
            raise source.error(msg, field=f"{where}.{_NVIDIA_MEMORY}")
        return int(nvidia) * _MIB or None
    for name in _AMD_MEMORY if maker == "amd.com" else ():
        if labels.get(name):
            try:
                return parse_memory(f"{labels[name]}iB")
            except ValueError as error:
                raise source.error(str(error), field=f"{where}.{name}") from None
    return None
