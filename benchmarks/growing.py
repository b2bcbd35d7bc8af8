"""A seeded generator of problems of any size, for ``benchmarks.growth``.

Clusters, their accelerators, sizes, networks and links are random; the model and the
batch follow from the number of layers and devices, as in published runs.
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
#: Usual widths up to a number of layers: layers, hidden, heads, key-value heads, MLP.
WIDTHS = (
    (24, 2048, 16, 16, 5504),
    (40, 5120, 40, 40, 13824),
    (64, 6144, 48, 8, 20480),
    (96, 8192, 64, 8, 28672),
    (126, 16384, 128, 8, 53248),
    (10_000, 18432, 128, 8, 61440),
)
#: Largest over smallest node count, before scaling to the requested devices.
_SPREAD = 32
#: Probability that a cluster repeats an earlier one, with its sizes.
_TWIN = 0.25
_DEVICES_PER_SEQUENCE = 8
_SEQ_LEN = 4096


class Size(NamedTuple):
    """Size of a problem."""

    clusters: int
    devices: int
    layers: int


def document(size: Size, seed: int) -> dict[str, Any]:
    """Return a problem as the content of its YAML file."""
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
