"""A seeded generator of problems of any size, for ``benchmarks.growth``.

Clusters, their accelerators, sizes, networks and links are drawn; the model and the
batch follow from the number of layers and devices, as those of published runs do.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, NamedTuple

from hetopt.problem.reading import read_problem_text

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem

#: Accelerators and devices per node.
KINDS = (
    ("A100-40GB", 8),
    ("A100-80GB", 8),
    ("Ascend-A2-64GB", 16),
    ("B200", 8),
    ("H100", 8),
    ("H20-96GB", 8),
    ("H20-141GB", 8),
    ("H200", 8),
    ("H800", 8),
    ("L40S", 8),
    ("MI300X", 8),
    ("V100-32GB", 8),
)
#: Layers up to which a width is usual: layers, hidden, heads, key-value heads, MLP.
WIDTHS = (
    (24, 2048, 16, 16, 5504),
    (40, 5120, 40, 40, 13824),
    (64, 6144, 48, 8, 20480),
    (96, 8192, 64, 8, 28672),
    (126, 16384, 128, 8, 53248),
    (10_000, 18432, 128, 8, 61440),
)
#: Largest node count over the smallest, before they are scaled to the devices wanted.
_SPREAD = 32
#: How often a cluster repeats an earlier one, sizes included.
_TWIN = 0.25
_DEVICES_PER_SEQUENCE = 8
_SEQ_LEN = 4096


class Size(NamedTuple):
    """How large a problem is."""

    clusters: int
    devices: int
    layers: int


def document(size: Size, seed: int) -> dict[str, Any]:
    """Return a problem as its YAML file would say it."""
    draw = random.Random(f"{size.clusters} {size.devices} {size.layers} {seed}")
    _, hidden, heads, kv_heads, ffn = next(w for w in WIDTHS if size.layers <= w[0])
    batch = max(size.devices // _DEVICES_PER_SEQUENCE, 32)
    return {
        "name": f"growth-{size.clusters}-{size.devices}-{size.layers}-{seed}",
        "model": {
            "layers": size.layers,
            "hidden": hidden,
            "heads": heads,
            "kv_heads": kv_heads,
            "ffn": ffn,
            "vocab": 128_000,
        },
        "clusters": _clusters(size, draw),
        "links": {
            "default": {
                "bandwidth": f"{draw.choice((10, 25, 50))} Gbps",
                "latency": f"{draw.choice((1, 2, 5))} ms",
                "staged": draw.choice(("host", "device")),
            }
        },
        "training": {
            "global_batch": 1 << (batch - 1).bit_length(),
            "seq_len": _SEQ_LEN,
            "precision": "fp16",
            "zero": 1,
            "recompute": "auto",
            "schedule": "virtual-1f1b",
        },
    }


def problem(size: Size, seed: int) -> Problem:
    """Return a problem of this size."""
    return read_problem_text(json.dumps(document(size, seed)))


def _clusters(size: Size, draw: random.Random) -> list[dict[str, Any]]:
    kinds = draw.sample(KINDS, min(size.clusters, draw.randint(6, 10)))
    chosen: list[tuple[tuple[str, int], float, int]] = []
    for index in range(size.clusters):
        if index >= len(kinds) and draw.random() < _TWIN:
            chosen.append(draw.choice(chosen))
            continue
        kind = kinds[index] if index < len(kinds) else draw.choice(kinds)
        weight = _SPREAD ** draw.random()
        chosen.append((kind, weight, draw.choice((100, 200, 400))))
    total = sum(weight for _, weight, _ in chosen)
    return [
        {
            "name": f"{accelerator.lower()}-{index}",
            "accelerator": accelerator,
            "nodes": max(1, round(size.devices * weight / total / per_node)),
            "devices_per_node": per_node,
            "inter_node": {"bandwidth": f"{gbps} Gbps", "latency": "5 us"},
        }
        for index, ((accelerator, per_node), weight, gbps) in enumerate(chosen)
    ]
