"""Draw the problem of a small instance, with pins of every kind."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

from hetopt.problem.cluster.accelerator import Accelerator, Link, PeakFlops
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.cluster.links import ClusterLink, ClusterLinks
from hetopt.problem.model.experts import Experts
from hetopt.problem.model.model import Model
from hetopt.problem.problem import Problem
from hetopt.problem.training.choices import RECOMPUTE, ScheduleName
from hetopt.problem.training.pins import ANY, ClusterPins, Domain, Pins
from hetopt.problem.training.training import Training

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NODES = ((1, 2), (2, 1), (1, 3), (2, 2), (1, 4), (1, 6), (3, 2), (2, 3), (2, 4), (1, 8))
#: What may be pinned of models with experts.
EXPERT_DEGREES = {"ep": (1, 2, 3, 4), "etp": (1, 2, 3)}
_LINK = Link(latency_s=1e-6, bandwidth_bytes_per_s=1e10)


# In one piece: the order of the draws is what a seed stands for.
def draw_problem(
    rng: Random,
    schedule: ScheduleName,
    clusters: int | None,
    *,
    pinned: bool,
    size: float,
    experts: bool = False,
) -> Problem:
    count = clusters or rng.choice((1, 2, 2, 2, 3, 3))
    accelerator = Accelerator(
        name="toy",
        peak_flops=PeakFlops.dense_16_bit(1e12),
        memory_bytes=1600,
        memory_bandwidth_bytes_per_s=1e11,
        intra_node=_LINK,
        host_device=_LINK,
    )
    drawn: list[Cluster] = []
    for index in range(count):
        nodes, per_node = rng.choice(NODES)
        max_tp = rng.randint(1, per_node)
        memory = 16 * rng.randint(40, 400)
        if drawn and rng.random() < 0.15:  # a twin, so that the order is a tie
            twin = drawn[-1]
            nodes, per_node = twin.nodes, twin.devices_per_node
            max_tp, memory = twin.max_tp, twin.memory_bytes
        drawn.append(
            Cluster(
                name="zyx"[index],  # names against the order of the clusters
                accelerator=accelerator,
                nodes=nodes,
                devices_per_node=per_node,
                memory_bytes=memory,
                max_tp=max_tp,
                intra_node=_LINK,
                inter_node=_LINK,
                host_device=_LINK,
                nics_per_node=1,
            )
        )
    block = rng.random() < 0.3 and not experts
    layers = rng.randint(3, 7)
    if block:
        layers = 1 if size < 0.6 else rng.choice((1, 2))
    elif size < 0.6:
        layers = min(layers, 4)
    model = Model(
        name="toy",
        layers=layers,
        hidden=96,
        heads=24,
        kv_heads=rng.choice((24, 8, 2)),
        head_dim=4,
        ffn=192,
        vocab=100,
        tied=rng.random() < 0.3,
        granularity="block" if block else "layer",
        experts=_draw_experts(rng, layers) if experts else None,
    )
    training = Training(
        global_batch=rng.choice((2, 4, 6, 8, 8)),
        seq_len=48,
        recompute={
            cluster.name: tuple(rng.sample(RECOMPUTE, rng.randint(1, 3)))
            for cluster in drawn
            if rng.random() < 0.5
        },
        schedule=schedule,
        reserve=rng.choice((0.0, 0.0625)),
    )
    return Problem(
        name=f"toy-{schedule}",
        model=model,
        clusters=tuple(drawn),
        links=ClusterLinks(
            default=ClusterLink(
                latency_s=_LINK.latency_s,
                connection_bytes_per_s=_LINK.bandwidth_bytes_per_s,
                staged="host",
            ),
        ),
        training=training,
        pins=draw_pins(rng, drawn, model, training) if pinned else Pins(),
    )


def _draw_experts(rng: Random, layers: int) -> Experts:
    """Of some layers, or of all."""
    return Experts(
        number=rng.choice((2, 4, 6, 8)),
        per_token=2,
        ffn=rng.choice((6, 8, 12)),
        shared_ffn=rng.choice((0, 12, 24)),
        dense_layers=tuple(layer for layer in range(layers - 1) if rng.random() < 0.4),
    )


def draw_pins(
    rng: Random, clusters: Sequence[Cluster], model: Model, training: Training
) -> Pins:
    """One to three pins of different kinds; not all of them can be met."""
    body = len(model.units) - 2
    names = [cluster.name for cluster in clusters]
    batch = training.global_batch
    counts = [q for q in range(1, batch + 1) if batch % q == 0]
    stages, microbatches = ANY, ANY
    order: tuple[str, ...] | None = None
    forbidden_next: frozenset[tuple[str, str]] = frozenset()
    units: tuple[int, ...] | None = None
    own: dict[str, dict[str, Domain]] = {}
    kinds = ("stages", "microbatches", "order", "next", "units", *["cluster"] * 4)
    for kind in rng.sample(kinds, rng.randint(1, 3)):
        if kind == "stages":
            stages = _domain(rng, range(1, min(5, body) + 1))
        elif kind == "microbatches":
            microbatches = _domain(rng, counts)
        elif kind == "order":
            order = tuple(rng.sample(names, rng.randint(1, len(names))))
        elif kind == "next" and len(names) > 1:
            first, second = rng.sample(names, 2)
            pairs = {(first, second)}
            if rng.random() < 0.3:
                pairs.add((second, first))
            forbidden_next = frozenset(pairs)
        elif kind == "units":
            p = rng.randint(1, min(3, body))
            cuts = sorted(rng.sample(range(2, body + 1), p - 1))
            ends = [0, *cuts, body + 2]
            units = tuple(b - a for a, b in pairwise(ends))
        elif kind == "cluster":
            values: Mapping[str, Sequence[object]] = {
                "stages": range(4),
                "units": range(body + 2),
                "dp": (1, 2, 3, 4),
                "cp": (1, 2, 3),
                "tp": (1, 2, 3, 4),
                **(EXPERT_DEGREES if model.experts is not None else {}),
                "recompute": RECOMPUTE,
            }
            what = rng.choice(tuple(values))
            own.setdefault(rng.choice(names), {})[what] = _domain(rng, values[what])
    return Pins(
        stages=stages,
        microbatches=microbatches,
        order=order,
        forbidden_next=forbidden_next,
        units=units,
        clusters={name: ClusterPins(**domains) for name, domains in own.items()},
    )


def _domain(rng: Random, values: Sequence[object]) -> Domain:
    chosen = frozenset(rng.sample(list(values), rng.randint(1, min(2, len(values)))))
    if rng.random() < 0.5:
        return Domain(allowed=chosen)
    return Domain(forbidden=chosen)
