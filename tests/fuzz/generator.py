"""Problems of weird shapes that problem files may have, though few machines do.

``make_case(seed)`` is a pure function of its seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from hetopt.export.registry import SHIPPED
from hetopt.problem.training.choices import FREE, INTERLEAVED, RECOMPUTE
from hetopt.schedule.schedules import RULES
from tests.oracle.instances import OVERLAPPING

#: Schedules whose stages wait for transfers.
BLOCKING = tuple(rule.name for rule in RULES.values() if rule.blocking)
#: Schedules whose gradients of weights run later.
SPLIT = tuple(rule.name for rule in RULES.values() if rule.splits)
#: Rates and latencies from dead to beyond anything there is.
RATES = ("1 B/s", "1 bps", "8 bps", "1e-3 bps", "100 kbps", "1 Mbps", "1 Gbps")
FAST_RATES = ("10 Gbps", "100 Gbps", "400 Gbps", "3 TB/s", "1e12 GB/s")
LATENCIES = ("0", "1 ns", "5 us", "1 ms", "1 s", "3600 s", "1e5 s", "1e10 s")
MEMORIES = ("1 B", "997 MB", "8 GB", "80 GB", "100 TB", "900 TB")
PRESETS = ("A100-80GB", "H100", "V100-16GB", "H20-96GB", "Ascend-A2-64GB", "A40")
MODELS = ("llama-7b", "llama-13b", "bert-huge", "llama-3-8b")
#: Nodes and devices of each.
SHAPES = ((1, 1), (1, 8), (2, 8), (4, 8), (3, 5), (7, 13), (1, 997), (125_000, 8))
BATCHES = (1, 2, 3, 7, 8, 16, 30, 64, 97, 128, 1000, 4096, 1_000_003)
LENGTHS = (1, 17, 512, 2048, 4096, 65_536, 1_000_003)
LAYERS = (1, 2, 3, 4, 7, 16, 31, 96)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A problem, and how it is asked to be planned and exported.

    Attributes
    ----------
    problem
        The content of a problem file.
    options
        Of ``hetopt plan``, beside time limit and output.
    launcher
        What the plan is exported for.
    """

    seed: int
    problem: dict[str, Any]
    options: list[str] = field(default_factory=list)
    launcher: str = "torch"


def make_case(seed: int) -> Case:
    """Draw a case."""
    rng = Random(seed)
    clusters = _clusters(rng)
    problem: dict[str, Any] = {
        "name": f"fuzz-{seed}",
        "model": _model(rng),
        "clusters": clusters,
        "training": _training(rng),
    }
    if len(clusters) > 1:
        problem["links"] = _links(rng, [cluster["name"] for cluster in clusters])
    if rng.random() < 0.25:
        problem["pin"] = _pins(rng, clusters)
    return Case(
        seed=seed,
        problem=problem,
        options=_options(rng),
        launcher=rng.choice(sorted(SHIPPED)),
    )


def _model(rng: Random) -> dict[str, Any]:
    if rng.random() < 0.3:
        return {"preset": rng.choice(MODELS)}
    heads = rng.choice((1, 7, 13, 16, 32, 64))
    kv_heads = heads if rng.random() < 0.7 else 1
    model: dict[str, Any] = {
        "layers": 5000 if rng.random() < 0.04 else rng.choice(LAYERS),
        "hidden": heads * rng.choice((1, 31, 64, 128)),
        "heads": heads,
        "kv_heads": kv_heads,
        "ffn": rng.choice((1, 1009, 4096, 11_008, 49_152)),
        "vocab": rng.choice((1, 2, 32_003, 128_256, 1_000_003)),
    }
    if rng.random() < 0.2:
        model["granularity"] = "block"
    if rng.random() < 0.2:
        model["tied"] = True
    return model


def _clusters(rng: Random) -> list[dict[str, Any]]:
    count = 40 if rng.random() < 0.04 else rng.choice((1, 1, 2, 2, 2, 3, 4))
    return [_cluster(rng, f"c{number}") for number in range(count)]


def _cluster(rng: Random, name: str) -> dict[str, Any]:
    nodes, devices = rng.choice(SHAPES[:5] if rng.random() < 0.8 else SHAPES)
    cluster: dict[str, Any] = {
        "name": name,
        "accelerator": rng.choice(PRESETS),
        "nodes": nodes,
        "devices_per_node": devices,
        "inter_node": _link(rng),
    }
    if rng.random() < 0.25:
        cluster["memory"] = rng.choice(MEMORIES)
        # A device's usual overhead may be more than that.
        cluster["overhead"] = 0
    if rng.random() < 0.1:
        cluster["intra_node"] = _link(rng)
    if rng.random() < 0.1:
        cluster["host_device"] = _link(rng)
    if rng.random() < 0.1:
        cluster["max_tp"] = rng.randint(1, devices)
    if rng.random() < 0.1:
        cluster["nics_per_node"] = rng.choice((1, 3, 8))
    # Drawn apart, so that the rest of a seed's problem stays what it was.
    more = Random(f"{name} {nodes} {devices} {cluster}")
    if nodes <= 8 and more.random() < 0.15:
        sizes = [max(1, devices - more.randint(0, 3)) for _ in range(nodes)]
        del cluster["devices_per_node"]
        cluster["nodes"] = sizes
        if "max_tp" in cluster:
            cluster["max_tp"] = min(cluster["max_tp"], *sizes)
    return cluster


def _link(rng: Random) -> dict[str, Any]:
    weird = rng.random() < 0.4
    return {
        "bandwidth": rng.choice(RATES if weird else FAST_RATES),
        "latency": rng.choice(LATENCIES if weird else LATENCIES[:4]),
    }


def _links(rng: Random, names: list[str]) -> dict[str, Any]:
    links: dict[str, Any] = {"default": _link(rng)}
    if rng.random() < 0.3:
        links["default"]["staged"] = rng.choice(("host", "device"))
    if rng.random() < 0.2:
        links["default"]["per_node"] = rng.choice(RATES + FAST_RATES)
    if rng.random() < 0.3:
        links["pairs"] = [{"between": rng.sample(names, 2), **_link(rng)}]
    # Drawn apart, so that the rest of a seed's problem stays what it was.
    more = Random(f"{names} {links}")
    if more.random() < 0.3:
        links["default"]["bandwidth"] = "unlimited"
        links["default"]["per_connection"] = more.choice(RATES + FAST_RATES)
    if more.random() < 0.1:
        links["default"]["per_message"] = more.choice(LATENCIES)
    if "pairs" in links and more.random() < 0.3:
        links["pairs"][0]["bandwidth"] = "none"
    return links


def _training(rng: Random) -> dict[str, Any]:
    training: dict[str, Any] = {
        "global_batch": rng.choice(BATCHES),
        "seq_len": rng.choice(LENGTHS),
        "schedule": rng.choice((*OVERLAPPING, FREE)),
        "zero": rng.choice((0, 1, 2, 3)),
        "precision": rng.choice(("bf16", "fp32")),
        "optimizer": rng.choice(("adam", "sgd")),
        "recompute": rng.choice(("auto", *RECOMPUTE)),
    }
    if rng.random() < 0.2:
        training["reserve"] = rng.choice((0, 0.5, 0.999999))
    # Drawn apart, so that the rest of a seed's problem stays what it was.
    more = Random(str(training))
    if more.random() < 0.2:
        training |= {"schedule": INTERLEAVED, "chunks": more.choice((2, 2, 3, 4))}
    elif more.random() < 0.1:
        training["schedule"] = more.choice(BLOCKING)
    elif more.random() < 0.1:
        training["schedule"] = more.choice(SPLIT)
    return training


def _pins(rng: Random, clusters: list[dict[str, Any]]) -> dict[str, Any]:
    pins: dict[str, Any] = {}
    names = [cluster["name"] for cluster in clusters]
    if rng.random() < 0.4:
        pins["stages"] = rng.choice((1, 2, 3, [1, 2, 4], 17))
    if rng.random() < 0.3:
        pins["microbatches"] = rng.choice((1, 2, [1, 2, 4, 8]))
    if rng.random() < 0.3:
        pins["order"] = rng.sample(names, rng.randint(1, len(names)))
    if rng.random() < 0.4:
        key = rng.choice(("dp", "cp", "tp", "stages"))
        pins["clusters"] = {rng.choice(names): {key: rng.choice((1, 2, [1, 2]))}}
    return pins or {"stages": 1}


def _options(rng: Random) -> list[str]:
    options = []
    if rng.random() < 0.1:
        options += ["--top", "3"]
    if rng.random() < 0.08:
        options += ["--relax", rng.choice(("p3", "p4", "p3,p4", "p4-falling-tp"))]
    elif rng.random() < 0.12:
        options += ["--objective", "simulated"]
    return options
