"""A problem as plain data that ``read_problem_text`` reads back unchanged."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hetopt.problem.training.choices import RECOMPUTE
from hetopt.problem.training.dispatch import EVEN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetopt.problem.cluster.accelerator import Accelerator, Link
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.cluster.links import ClusterLink, ClusterLinks
    from hetopt.problem.model.block import Block
    from hetopt.problem.model.model import Model
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.dispatch import Dispatch
    from hetopt.problem.training.pins import ClusterPins, Domain, Pins
    from hetopt.problem.training.training import Training

_MODEL_FIELDS = (
    "name",
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "head_dim",
    "ffn",
    "vocab",
    "gated",
    "tied",
    "norm",
    "positions",
    "granularity",
)
#: Only where they say something.
_FURTHER_FIELDS = {
    "attention": "causal",
    "patch": 0,
    "classes": 0,
    "predictions": 0,
}
#: What blocks have of their own.
_BLOCK_FIELDS = (
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "head_dim",
    "ffn",
    "gated",
    "attention",
)
_FURTHER_BLOCK_FIELDS = {"window": 0, "merge": 1, "context": ""}


def problem_to_data(problem: Problem) -> dict[str, Any]:
    """Return the problem in the form of a problem file, as plain JSON data.

    Every default and preset is spelled out, and numbers are exact: reading the data
    back gives an equal problem, except for the sources of an accelerator's numbers.
    """
    return {
        "name": problem.name,
        "model": _model(problem.model),
        "clusters": [_cluster(cluster) for cluster in problem.clusters],
        "links": _links(problem.links),
        "training": _training(problem.training),
        "pin": _pins(problem.pins),
        "latency": dict(problem.latency),
        "calibration": {
            "efficiency": dict(problem.calibration.efficiency),
            "bandwidth": problem.calibration.bandwidth,
            "intra_node": problem.calibration.intra_node,
        },
    }


def _model(model: Model) -> dict[str, Any]:
    data = {
        name: getattr(model, name)
        for name in _MODEL_FIELDS
        if not (model.blocks and name in _BLOCK_FIELDS)
    }
    if model.patch and model.classes:
        del data["vocab"]
    data |= _unlike(model, _FURTHER_FIELDS)
    if model.experts is not None:
        experts = asdict(model.experts)
        data["experts"] = {**experts, "dense_layers": [*experts["dense_layers"]]}
    if model.latent is not None:
        data["latent"] = asdict(model.latent)
    own = asdict(model.architecture)
    data |= {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in own.items()
        if model.architecture.differs(name)
    }
    if model.blocks:
        data.pop("attention", None)
        data["blocks"] = [
            {
                "name": block.name,
                **{name: getattr(block, name) for name in _BLOCK_FIELDS},
                **_unlike(block, _FURTHER_BLOCK_FIELDS),
            }
            for block in model.blocks
        ]
    return data


def _unlike(of: Model | Block, defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that differ from their defaults."""
    return {
        name: getattr(of, name)
        for name, default in defaults.items()
        if getattr(of, name) != default
    }


def _rate(value: float) -> str:
    return f"{value!r} B/s"


def _link(link: Link) -> dict[str, Any]:
    return {
        "bandwidth": _rate(link.bandwidth_bytes_per_s),
        "latency": f"{link.latency_s!r} s",
    }


def _accelerator(accelerator: Accelerator) -> dict[str, Any]:
    return {
        "name": accelerator.name,
        **({} if accelerator.preset is None else {"preset": accelerator.preset}),
        **({} if accelerator.like is None else {"like": accelerator.like}),
        "peak_flops": {
            name: f"{getattr(accelerator.peak_flops, name)!r} FLOP/s"
            for name in accelerator.peak_flops.known
        },
        "memory": f"{accelerator.memory_bytes} B",
        **(
            {}
            if accelerator.overhead_bytes is None
            else {"overhead": f"{accelerator.overhead_bytes} B"}
        ),
        "memory_bandwidth": _rate(accelerator.memory_bandwidth_bytes_per_s),
        "intra_node": _link(accelerator.intra_node),
        "host_device": _link(accelerator.host_device),
    }


def _cluster(cluster: Cluster) -> dict[str, Any]:
    data = {
        "name": cluster.name,
        "accelerator": _accelerator(cluster.accelerator),
        "nodes": cluster.nodes,
        "devices_per_node": cluster.devices_per_node,
        "memory": f"{cluster.memory_bytes} B",
        "overhead": f"{cluster.overhead_bytes} B",
        "max_tp": cluster.max_tp,
        "intra_node": _link(cluster.intra_node),
        "inter_node": _link(cluster.inter_node),
        "host_device": _link(cluster.host_device),
        "nics_per_node": cluster.nics_per_node,
    }
    if cluster.unequal is not None:
        data["nodes"] = list(cluster.unequal)
        del data["devices_per_node"]
    if cluster.price_per_hour is not None:
        data["price_per_hour"] = cluster.price_per_hour
    if cluster.group is not None:
        data["group"] = {"size": cluster.group.size, **_link(cluster.group.link)}
    if cluster.offload is not None:
        data["offload"] = cluster.offload
        data["host_memory_bandwidth"] = _rate(cluster.host_memory_bytes_per_s)
    if cluster.hosts is not None:
        data["hosts"] = list(cluster.hosts)
    return data


def _cluster_link(link: ClusterLink | None) -> dict[str, Any]:
    if link is None:
        return {"bandwidth": "none"}
    rates = {
        "bandwidth": link.capacity_bytes_per_s,
        "per_node": link.node_bytes_per_s,
        "per_connection": link.connection_bytes_per_s,
    }
    return {
        "bandwidth": "unlimited",
        **{key: _rate(rate) for key, rate in rates.items() if rate is not None},
        "latency": f"{link.latency_s!r} s",
        "per_message": f"{link.message_s!r} s",
        "staged": link.staged,
    }


def _links(links: ClusterLinks) -> dict[str, Any]:
    return {
        "default": _cluster_link(links.default),
        "pairs": [
            {"between": sorted(pair), **_cluster_link(link)}
            for pair, link in links.pairs.items()
        ],
    }


def _training(training: Training) -> dict[str, Any]:
    return {
        "global_batch": training.global_batch,
        "seq_len": training.seq_len,
        **({} if training.lengths is None else {"lengths": dict(training.lengths)}),
        "precision": training.precision,
        **({} if training.emulate is None else {"emulate": training.emulate}),
        "optimizer": training.optimizer,
        "zero": training.zero,
        **(
            {}
            if training.shard_group is None
            else {"shard_group": training.shard_group}
        ),
        "overlap_gradients": training.overlap_gradients,
        "recompute": {
            name: list(policies) for name, policies in training.recompute.items()
        },
        "schedule": training.schedule,
        **(
            {"warmup_epsilon": training.warmup_epsilon}
            if training.warmup_epsilon is not None
            else {}
        ),
        **({} if training.moe == EVEN else {"moe": _dispatch(training.moe)}),
        "reserve": training.reserve,
    }


def _dispatch(moe: Dispatch) -> dict[str, Any]:
    return {
        "imbalance": moe.imbalance,
        "capacity": moe.capacity or "none",
        "dispatcher": moe.dispatcher,
        "node_dedup": moe.node_dedup,
        "overlap": moe.overlap,
    }


def _split(domains: Iterable[tuple[str, Domain]]) -> tuple[dict[str, Any], ...]:
    """Return the pinned and the forbidden values by field."""
    pinned, forbidden = {}, {}
    for field, domain in domains:
        if domain.allowed is not None:
            pinned[field] = _ordered(domain.allowed)
        if domain.forbidden:
            forbidden[field] = _ordered(domain.forbidden)
    return pinned, forbidden


def _ordered(values: Iterable[Any]) -> list[Any]:
    return sorted(
        values,
        key=lambda item: RECOMPUTE.index(item) if item in RECOMPUTE else item,
    )


def _pins(pins: Pins) -> dict[str, Any]:
    fields = ("stages", "microbatches", "resharding")
    pinned, forbidden = _split((field, getattr(pins, field)) for field in fields)
    if pins.order is not None:
        pinned["order"] = list(pins.order)
    if pins.units is not None:
        pinned["units"] = list(pins.units)
    if pins.forbidden_next:
        forbidden["next"] = sorted(list(pair) for pair in pins.forbidden_next)
    clusters = {name: _cluster_pins(item) for name, item in pins.clusters.items()}
    for part, target in ((0, pinned), (1, forbidden)):
        own = {name: split[part] for name, split in clusters.items() if split[part]}
        if own:
            target["clusters"] = own
    return {**pinned, "forbid": forbidden} if forbidden else pinned


def _cluster_pins(pins: ClusterPins) -> tuple[dict[str, Any], ...]:
    fields = ("stages", "units", "dp", "cp", "tp", "ep", "etp", "recompute")
    return _split((field, getattr(pins, field)) for field in fields)
