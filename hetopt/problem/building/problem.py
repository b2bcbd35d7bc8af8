"""Build the problem from the fields of its file: defaults, presets, cross-checks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetopt.base.record import Fault
from hetopt.base.words import counted
from hetopt.problem.building.calibration import build_calibration, with_overhead
from hetopt.problem.building.devices import (
    base_of,
    check_precision,
    facts_of,
    overhead_bytes,
    overridden,
    peak_flops,
)
from hetopt.problem.building.lengths import with_lengths
from hetopt.problem.building.links import build_links, check_order
from hetopt.problem.building.names import check_cluster
from hetopt.problem.building.nodes import nodes_of
from hetopt.problem.building.pins import build_pins
from hetopt.problem.cluster.accelerator import Accelerator, Link
from hetopt.problem.cluster.cluster import HOST_MEMORY_BYTES_PER_S, Cluster, DeviceGroup
from hetopt.problem.problem import Problem
from hetopt.problem.schema.fields import AUTO, read_tokens
from hetopt.problem.training.choices import ANY, RECOMPUTE
from hetopt.problem.training.dispatch import EVEN, Dispatch
from hetopt.problem.training.training import DEFAULT_SCHEDULE, Training

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetopt.problem.document.document import FieldPath
    from hetopt.problem.model.model import Model
    from hetopt.problem.schema.accelerator import AcceleratorSpec, LinkSpec
    from hetopt.problem.schema.problem import ClusterSpec, ProblemSpec, TrainingSpec
    from hetopt.problem.training.choices import Recompute

#: Latency of an inter-node link that gives only its bandwidth.
DEFAULT_INTER_NODE_LATENCY_S = 5e-6


def build_problem(
    spec: ProblemSpec,
    name: str,
    find_profile: Callable[[str, str], str],
    read_shares: Callable[[str], Mapping[int, float]],
) -> Problem:
    """Return the problem; Fault with the path of the first wrong field.

    Parameters
    ----------
    spec
        The validated file.
    name
        Name of the problem if the file gives none.
    find_profile
        Returns the latency source for a cluster's name and the file's text.
    read_shares
        Reads the histogram that ``training.lengths`` names.
    """
    model = spec.model
    clusters = _build_clusters(spec.clusters)
    names = tuple(cluster.name for cluster in clusters)
    training = _build_training(spec.training, names, model)
    lengths = spec.training.lengths
    if lengths is not None:
        shares = read_shares(lengths) if isinstance(lengths, str) else lengths
        training = with_lengths(training, shares, spec.training.global_batch)
    for cluster in clusters:
        check_precision(cluster, training)
    for tokens in training.sequences:
        fault = model.sequence_fault(tokens)
        if fault:
            raise Fault(fault, "training", "seq_len")
    calibration = build_calibration(spec.calibration, names)
    if spec.calibration is not None:
        if spec.calibration.reserve is not None:
            training = replace(training, reserve=spec.calibration.reserve)
        clusters = with_overhead(clusters, spec.calibration.overhead or {})
    latency = dict.fromkeys(names, AUTO)
    for known, source in (spec.latency or {}).items():
        check_cluster(known, names, ("latency", known))
        latency[known] = find_profile(known, source)
    links = build_links(spec.links, tuple(clusters))
    pins = build_pins(spec.pin, model, tuple(clusters), training)
    check_order(pins.order, links)
    return Problem(
        name=spec.name or name,
        model=model,
        clusters=tuple(clusters),
        links=links,
        training=training,
        pins=pins,
        latency=latency,
        calibration=calibration,
        launcher=spec.launcher,
    )


def _build_accelerator(spec: AcceleratorSpec, path: FieldPath) -> Accelerator:
    base = base_of(spec, path)
    if base is not None and not spec.model_dump(exclude={"preset"}, exclude_none=True):
        return base
    needed: dict[str, Any] = {
        "name": spec.name or (base.name if base else None),
        "peak_flops": peak_flops(spec, base, path),
        "memory": spec.memory or (base.memory_bytes if base else None),
        "memory_bandwidth": spec.memory_bandwidth
        or (base.memory_bandwidth_bytes_per_s if base else None),
        "intra_node": spec.intra_node or (base.intra_node if base else None),
        "host_device": spec.host_device or (base.host_device if base else None),
    }
    for field, value in needed.items():
        if value is None:
            msg = "is missing, expected it, or like: a device that gives it"
            raise Fault(msg, *path, field)
    return Accelerator(
        name=needed["name"],
        peak_flops=needed["peak_flops"],
        memory_bytes=needed["memory"],
        memory_bandwidth_bytes_per_s=needed["memory_bandwidth"],
        intra_node=_link(
            spec.intra_node, base.intra_node if base else None, (*path, "intra_node")
        ),
        host_device=_link(
            spec.host_device, base.host_device if base else None, (*path, "host_device")
        ),
        overhead_bytes=(
            base.overhead_bytes if base and spec.overhead is None else spec.overhead
        ),
        sources=_kept_sources(base, spec),
        **facts_of(spec, base),
    )


def _kept_sources(base: Accelerator | None, spec: AcceleratorSpec) -> dict[str, str]:
    """Return the catalogue's sources of the fields that the user does not override."""
    return {
        key: source
        for key, source in (base.sources if base else {}).items()
        if not overridden(spec, key)
    }


def _link(
    spec: LinkSpec | None,
    base: Link | None,
    path: FieldPath,
    latency_s: float | None = None,
) -> Link:
    """Return the link, completed from ``base``, then from ``latency_s``."""
    bandwidth = spec.bandwidth if spec else None
    latency = spec.latency if spec else None
    if base is not None:
        bandwidth = base.bandwidth_bytes_per_s if bandwidth is None else bandwidth
        latency = base.latency_s if latency is None else latency
    latency = latency_s if latency is None else latency
    if bandwidth is None:
        raise Fault("is missing, expected one such as '100 Gbps'", *path, "bandwidth")
    if latency is None:
        raise Fault("is missing, expected one such as '5 us'", *path, "latency")
    return Link(latency_s=latency, bandwidth_bytes_per_s=bandwidth)


# One statement for each field of a cluster.
def _build_cluster(spec: ClusterSpec, path: FieldPath, *, alone: bool) -> Cluster:
    accelerator = _build_accelerator(spec.accelerator, (*path, "accelerator"))
    nodes = nodes_of(spec, path)
    intra_node = _link(spec.intra_node, accelerator.intra_node, (*path, "intra_node"))
    if spec.inter_node is not None:
        inter_node = _link(
            spec.inter_node,
            None,
            (*path, "inter_node"),
            DEFAULT_INTER_NODE_LATENCY_S,
        )
    elif alone and nodes.number == 1:
        # No byte ever leaves the node, so this is never read.
        inter_node = intra_node
    else:
        msg = "is missing, expected one such as {bandwidth: 100 Gbps, latency: 5 us}"
        raise Fault(msg, *path, "inter_node")
    group = None
    if spec.group is not None:
        for size in nodes.sizes:
            if size % spec.group.size:
                msg = (
                    f"is {spec.group.size}, which does not divide the "
                    f"{counted(size, 'device')} of a node"
                )
                raise Fault(msg, *path, "group", "size")
        latency_s = spec.group.latency
        group = DeviceGroup(
            size=spec.group.size,
            link=Link(
                latency_s=intra_node.latency_s if latency_s is None else latency_s,
                bandwidth_bytes_per_s=spec.group.bandwidth,
            ),
        )
    max_tp = spec.max_tp or nodes.largest
    if max_tp > nodes.largest:
        msg = (
            f"is {max_tp}, expected at most the {counted(nodes.largest, 'device')} of "
            "a node"
        )
        raise Fault(msg, *path, "max_tp")
    memory = spec.memory or accelerator.memory_bytes
    return Cluster(
        name=spec.name,
        accelerator=accelerator,
        nodes=nodes.number,
        devices_per_node=nodes.largest,
        unequal=nodes.unequal,
        memory_bytes=memory,
        overhead_bytes=overhead_bytes(spec.overhead, accelerator, memory, path),
        max_tp=max_tp,
        intra_node=intra_node,
        inter_node=inter_node,
        host_device=_link(
            spec.host_device, accelerator.host_device, (*path, "host_device")
        ),
        nics_per_node=spec.nics_per_node or nodes.largest,
        uplink_bytes_per_s=spec.uplink,
        group=group,
        offload=spec.offload,
        host_memory_bytes_per_s=spec.host_memory_bandwidth or HOST_MEMORY_BYTES_PER_S,
        price_per_hour=spec.price_per_hour,
        hosts=spec.hosts,
    )


def _build_clusters(specs: tuple[ClusterSpec, ...]) -> list[Cluster]:
    _check_hosts(specs)
    clusters: list[Cluster] = []
    for index, spec in enumerate(specs):
        path: FieldPath = ("clusters", index)
        for before in clusters:
            if before.name == spec.name:
                msg = f"is {before.name!r} a second time, expected different names"
                raise Fault(msg, *path, "name")
        clusters.append(_build_cluster(spec, path, alone=len(specs) == 1))
    return clusters


def _check_hosts(clusters: tuple[ClusterSpec, ...]) -> None:
    """Refuse a wrong number of hosts, and a host that is named a second time."""
    owners: dict[str, str] = {}
    for index, cluster in enumerate(clusters):
        if cluster.hosts is None:
            continue
        path: FieldPath = ("clusters", index, "hosts")
        nodes = nodes_of(cluster, path[:-1]).number
        if len(cluster.hosts) != nodes:
            msg = (
                f"names {len(cluster.hosts)}, expected one host for each of the "
                f"{counted(nodes, 'node')}"
            )
            raise Fault(msg, *path)
        for position, host in enumerate(cluster.hosts):
            if host in owners:
                msg = f"is {host!r} a second time, first in cluster {owners[host]!r}"
                raise Fault(msg, *path, position)
            owners[host] = cluster.name


def _build_dispatch(given: Dispatch | None, model: Model) -> Dispatch:
    if given is not None and model.experts is None:
        msg = (
            f"is only for models with experts, and {model.name!r} has none: leave it "
            "out"
        )
        raise Fault(msg, "training", "moe")
    return given or EVEN


def _build_training(
    spec: TrainingSpec, names: tuple[str, ...], model: Model
) -> Training:
    path: FieldPath = ("training",)
    batch = spec.global_batch
    if isinstance(batch, str):
        tokens = read_tokens(batch)
        if tokens % spec.seq_len:
            msg = (
                f"is {batch!r} ({tokens} tokens; K, M, G are powers of 1024), "
                f"expected a multiple of seq_len ({spec.seq_len})"
            )
            raise Fault(msg, *path, "global_batch")
        batch = tokens // spec.seq_len
    if spec.gradients == "bf16" and spec.precision in ("fp16", "fp32"):
        msg = f"is 'bf16' with precision {spec.precision}, expected fp32"
        raise Fault(msg, *path, "gradients")
    recompute: Any = spec.recompute
    chosen: dict[str, tuple[Recompute, ...]]
    if isinstance(recompute, dict):
        for name in recompute:
            check_cluster(name, names, (*path, "recompute", name))
        chosen = {name: recompute.get(name, RECOMPUTE) for name in names}
    else:
        chosen = {name: recompute for name in names}
    return Training(
        global_batch=batch,
        seq_len=spec.seq_len,
        precision=spec.precision,
        emulate=spec.emulate,
        optimizer=spec.optimizer,
        zero=spec.zero,
        overlap_gradients=spec.overlap_gradients,
        # In a fixed order, so that the order in the file has no effect.
        recompute={
            name: tuple(item for item in RECOMPUTE if item in policies)
            for name, policies in chosen.items()
        },
        schedule=DEFAULT_SCHEDULE if spec.schedule == ANY else spec.schedule,
        any_schedule=spec.schedule == ANY,
        chunks=spec.chunks,
        warmup_epsilon=spec.warmup_epsilon,
        sequence_parallel=spec.sequence_parallel,
        attention=spec.attention,
        cross_entropy=spec.cross_entropy,
        gradients=spec.gradients,
        moe=_build_dispatch(spec.moe, model),
        reserve=spec.reserve,
    )
