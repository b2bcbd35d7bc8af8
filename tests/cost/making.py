from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.cost.shapes import Shape
from hetopt.cost.sources.source import ShardQuery
from hetopt.cost.units import tables, unit_parameters
from hetopt.problem.catalogue import accelerators
from hetopt.problem.cluster.accelerator import Link
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.cluster.links import ClusterLink, ClusterLinks
from hetopt.problem.model.model import Model
from hetopt.problem.problem import Problem
from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from hetopt.problem.training.training import Training

if TYPE_CHECKING:
    from hetopt.problem.cluster.links import Staging

GBPS = 1e9 / 8


def only(*values: Any) -> Domain:
    return Domain(allowed=frozenset(values))


def link(latency_s: float, bandwidth_bytes_per_s: float) -> Link:
    return Link(latency_s=latency_s, bandwidth_bytes_per_s=bandwidth_bytes_per_s)


def make_cluster(
    name: str = "a", accelerator: str = "A100-80GB", **changes: Any
) -> Cluster:
    device = accelerators()[accelerator]
    cluster = Cluster(
        name=name,
        accelerator=device,
        nodes=2,
        devices_per_node=8,
        memory_bytes=device.memory_bytes,
        max_tp=8,
        intra_node=device.intra_node,
        inter_node=link(5e-6, 100 * GBPS),
        host_device=device.host_device,
        nics_per_node=8,
    )
    return replace(cluster, **changes)


def make_model(**changes: Any) -> Model:
    model = Model(
        name="llama-7b",
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=32,
        head_dim=128,
        ffn=11008,
        vocab=32000,
    )
    return replace(model, **changes)


def make_links(
    latency_s: float = 1e-3,
    bandwidth_bytes_per_s: float = 10 * GBPS,
    capacity_bytes_per_s: float | None = None,
    staged: Staging = "host",
    **more: float,
) -> ClusterLinks:
    """Links whose ``bandwidth_bytes_per_s`` is one connection's."""
    return ClusterLinks(
        default=ClusterLink(
            latency_s=latency_s,
            connection_bytes_per_s=bandwidth_bytes_per_s,
            capacity_bytes_per_s=capacity_bytes_per_s,
            staged=staged,
            **more,
        )
    )


def make_problem(
    clusters: tuple[Cluster, ...] = (),
    model: Model | None = None,
    training: Training | None = None,
    pins: Pins | None = None,
    links: ClusterLinks | None = None,
) -> Problem:
    return Problem(
        name="test",
        model=model or make_model(),
        clusters=clusters or (make_cluster(),),
        links=links or make_links(),
        training=training or Training(global_batch=8, seq_len=2048),
        pins=pins or Pins(),
    )


def pinned(
    microbatches: int, name: str = "a", *, dp: int, cp: int, tp: int, recompute: str
) -> Pins:
    return Pins(
        microbatches=only(microbatches),
        clusters={
            name: ClusterPins(
                dp=only(dp), cp=only(cp), tp=only(tp), recompute=only(recompute)
            )
        },
    )


def shape(*rows: tuple[int, int, int]) -> Shape:
    """Rows of (microbatch, cp, tp)."""
    return Shape.of(rows)


def query(
    model: Model,
    training: Training,
    cluster: Cluster,
    kinds: tuple[str, ...],
    shape: Shape,
) -> ShardQuery:
    return ShardQuery(
        model=model, training=training, cluster=cluster, kinds=kinds, shape=shape
    )


def model_parameters(model: Model) -> float:
    """Parameters of the whole model; a tied table counts once."""
    one = np.ones(1, dtype=np.int64)
    total = sum(float(unit_parameters(model, kind, one)[0]) for kind in model.units)
    if model.tied:
        total -= (tables(model) - 1) * model.hidden * model.vocab
    return total
