"""Problems whose tables the cost model builds: kinds of layers, offload, prices."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import yaml

from hetopt.cost.build import build_table
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import FOLDED
from tests.oracle import wide
from tests.oracle.instances import Instance, count_plans

if TYPE_CHECKING:
    from tests.agreement.generator import Features

#: Plans an instance may have before memory, and where principles are relaxed.
_MOST_PLANS, _MOST_RELAXED = 400, 40
_SWIN = (
    {"name": "stage-1", "layers": 1, "hidden": 128, "heads": 4, "window": 49},
    {"name": "stage-2", "layers": 2, "hidden": 256, "heads": 8, "window": 49},
    {"name": "stage-3", "layers": 2, "hidden": 512, "heads": 16, "window": 49},
)


def _model(features: Features, rng: Random) -> dict[str, Any]:
    """Return a model of one, two or three kinds of layers, or one with experts."""
    # Folded, embedding and head are one pair, and so are every two layers.
    layers = rng.choice((2, 4) if features.schedule in FOLDED else (2, 3, 4))
    layers *= features.chunks
    if features.model == "t5":
        encoder = {"name": "encoder", "layers": 2, "attention": "bidirectional"}
        decoder = {"name": "decoder", "layers": 2, "context": "encoder"}
        named = {"blocks": [encoder, decoder], "norm": "rms", "tied": True}
        return {"hidden": 512, "heads": 8, "gated": False, **named}
    if features.model == "swin":
        merging = [{**each, "merge": 4} for each in _SWIN[1:]]
        rest = {"gated": False, "attention": "bidirectional", "patch": 48}
        return {**rest, "classes": 1000, "blocks": [_SWIN[0], *merging]}
    model: dict[str, Any] = {
        "layers": layers,
        "hidden": 1024,
        "heads": 8,
        "vocab": 8000,
    }
    model["tied"] = rng.random() < 0.3
    if features.experts:
        model["experts"] = {"number": 4, "per_token": 2, "ffn": 512}
    return model


def make_modelled(features: Features) -> Instance:
    """Draw a problem of one or two clusters and build its table."""
    rng = Random(f"modelled {features.seed}")
    while True:
        clusters = [
            {
                "name": name,
                "accelerator": rng.choice(("A40", "A100-80GB", "H100")),
                "nodes": rng.choice((1, 1, 2)),
                "devices_per_node": rng.choice((1, 2)),
                "memory": f"{rng.choice((150, 400, 700, 40_000))} MB",
                "overhead": "0 GB",
                "host_device": {"bandwidth": f"{rng.choice((2, 25))} GB/s"},
                "inter_node": {"bandwidth": "100 Gbps", "latency": "5 us"},
                **(
                    {"offload": "optimizer"}
                    if features.offload and (not number or rng.random() < 0.5)
                    else {}
                ),
                **(
                    {"price_per_hour": rng.choice((0, 3, 4, 12.5, 40))}
                    if features.prices
                    else {}
                ),
            }
            for number, name in enumerate("zy"[: features.clusters])
        ]
        training: dict[str, Any] = {
            "global_batch": rng.choice((4, 4, 6)),
            "seq_len": 3136 if features.model == "swin" else 256,
            "recompute": rng.choice(("none", "full")),
            "schedule": features.schedule,
        }
        if features.chunks > 1:
            training["chunks"] = features.chunks
        if features.epsilon is not None:
            training["warmup_epsilon"] = features.epsilon
        data = {
            "model": _model(features, rng),
            "clusters": clusters,
            "links": {"default": {"bandwidth": "10 Gbps", "latency": "50 us"}},
            "training": training,
        }
        problem = read_problem_text(yaml.safe_dump(data), "p.yaml")
        table = build_table(problem)
        most = _MOST_RELAXED if features.relaxed else _MOST_PLANS
        if count_plans(table) > most:
            continue
        if wide.count_plans(table, features.principles, most) <= most:
            return Instance(seed=features.seed, problem=problem, table=table)
