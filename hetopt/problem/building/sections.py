"""Sections of a problem that a file gives, beside the sections before them.

Each function is a validator of a field of ``Problem``. What a program makes passes:
solvers make problems whose pins no file could have.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from hetopt.base.faults import Fault, inside
from hetopt.base.fields import by_key
from hetopt.base.words import describe
from hetopt.problem.building.pins import ensure_cluster, ensure_names, fitted_pins
from hetopt.problem.cluster.cluster import ALONE, Cluster, ensure_overhead
from hetopt.problem.fields import AUTO
from hetopt.problem.model.kinds import END_KINDS
from hetopt.problem.training.choices import RECOMPUTE
from hetopt.problem.training.training import EVERY

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import ValidationInfo

    from hetopt.problem.calibration import Calibration
    from hetopt.problem.cluster.links import ClusterLinks
    from hetopt.problem.files import Files
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.choices import Recompute
    from hetopt.problem.training.pins import Pins
    from hetopt.problem.training.training import Training

#: Names that `latency` accepts besides profiles.
LATENCY_SOURCES = (AUTO, "operators", "roofline")


def completed(given: dict[str, Any], files: Files) -> dict[str, Any]:
    """Return a problem's sections, also those that a file may leave out."""
    clusters = given.get("clusters")
    if isinstance(clusters, list) and len(clusters) == 1:
        alone = clusters[0]
        if isinstance(alone, dict) and alone.get("inter_node") is None:
            nodes = alone.get("nodes")
            if nodes == 1 or (isinstance(nodes, list) and len(nodes) == 1):
                given = {**given, "clusters": [{**alone, "inter_node": ALONE}]}
    given = {"links": None, "latency": {}, **given}
    if given.get("name") is None:
        given["name"] = files.name
    launcher, training = given.get("launcher"), given.get("training")
    if launcher and isinstance(training, dict) and "software" not in training:
        for stack in files.software().values():
            if launcher in stack.launchers:
                given["training"] = {**training, "software": stack.name}
    return given


def several_clusters(value: Any) -> Any:
    """Pass on clusters, of which there is one at least."""
    if not isinstance(value, list | tuple) or not value:
        what = "an empty list" if value in ([], ()) else describe(value)
        raise Fault(f"is {what}, expected a list of at least one cluster")
    return value


def different_clusters(clusters: tuple[Cluster, ...]) -> tuple[Cluster, ...]:
    """Return clusters whose names and hosts differ."""
    owners: dict[str, str] = {}
    names: list[str] = []
    for index, cluster in enumerate(clusters):
        if cluster.name in names:
            msg = f"is {cluster.name!r} a second time, expected different names"
            raise Fault(msg, index, "name")
        names.append(cluster.name)
        for position, host in enumerate(cluster.hosts or ()):
            if host in owners:
                msg = f"is {host!r} a second time, first in cluster {owners[host]!r}"
                raise Fault(msg, index, "hosts", position)
            owners[host] = cluster.name
    return clusters


def between_clusters(
    value: Any, read: Callable[[Any], ClusterLinks], info: ValidationInfo
) -> ClusterLinks:
    """Return links, of which there is one for every pair of clusters."""
    names = _names(info)
    if info.context is None:
        return read(value)
    if names is None:
        return read(value or {})
    pairs = [frozenset(pair) for pair in combinations(names, 2)]
    given = value if isinstance(value, dict) else {}
    listed, default = given.get("pairs") or [], given.get("default")
    links = read({} if value is None else value)
    if pairs and not listed and default is None:
        msg = (
            f"is missing, expected the network between the {len(names)} clusters, "
            "such as {default: {bandwidth: 10 Gbps, latency: 1 ms}}"
        )
        raise Fault(msg, *(() if value is None else ("default",)))
    for index, pair in enumerate(listed):
        for position, name in enumerate(pair["between"]):
            path = ("pairs", index, "between", position)
            ensure_cluster(str(name), names, *path)
    for pair in pairs if default is None else ():
        if pair not in links.pairs:
            between = " and ".join(sorted(pair))
            msg = f"is missing, and pairs has no link between {between}"
            raise Fault(msg, "default")
    return links


def of_experts(value: Any, info: ValidationInfo) -> Any:
    """Pass on training, whose ``moe`` is for a model with experts."""
    model = info.data.get("model")
    moe = value.get("moe") if isinstance(value, dict) else None
    if moe is not None and model is not None and model.experts is None:
        msg = f"is only for models with experts, and {model.name!r} has none"
        raise Fault(f"{msg}: leave it out", "moe")
    return value


def fitting_training(training: Training, info: ValidationInfo) -> Training:
    """Return training settings that model and clusters can have."""
    model, names = info.data.get("model"), _names(info)
    if model is None or names is None:
        return training
    for tokens in training.sequences:
        if fault := model.sequence_fault(tokens):
            raise Fault(fault, "seq_len")
    if info.context is None:
        return training
    if training.gradients == "bf16" and training.precision in ("fp16", "fp32"):
        msg = f"is 'bf16' with precision {training.precision}, expected fp32"
        raise Fault(msg, "gradients")
    chosen = training.recompute
    for name in chosen:
        if name != EVERY:
            ensure_cluster(name, names, "recompute", name)
    for cluster in info.data["clusters"]:
        _ensure_precision(cluster, training)
    usual = chosen.get(EVERY, RECOMPUTE)
    recompute = {name: chosen.get(name, usual) for name in names}
    for option in sorted({option for own in recompute.values() for option in own}):
        if fault := _recompute_fault(model, option):
            raise Fault(f"is {describe(option)}, but {fault}", "recompute")
    overlaps, stack = training.overlap_tensor, training.software
    if overlaps is None:
        dense = model.experts is None and training.sequence_parallel
        overlaps = dense and stack is not None and stack.overlap_tensor
    return replace(training, recompute=recompute, overlap_tensor=overlaps)


def _recompute_fault(model: Model, option: Recompute) -> str | None:
    """Return why a model has nothing that an option recomputes; None: it has."""
    if model.granularity != "layer" and option not in RECOMPUTE:
        return "parts of a layer are units of their own: set granularity: layer"
    experts, of_layers = model.experts, set(model.units) - set(END_KINDS)
    has = {
        "mla_up_proj": model.latent is not None,
        "shared_experts": experts is not None and experts.shared_ffn,
        "mlp": not all(map(model.has_experts, of_layers)),
        **dict.fromkeys(("moe", "moe_act"), experts is not None),
    }
    return None if has.get(option, True) else "the model has none of it: leave it out"


def _ensure_precision(cluster: Cluster, training: Training) -> None:
    """Refuse a precision that a device lacks, unless it is emulated in one it has."""
    device, wanted = cluster.accelerator, training.precision
    has = ", ".join(device.peak_flops.known)
    if not device.lacks(wanted):
        return
    if training.emulate is None:
        msg = (
            f"is {wanted!r}, which {device.name} of cluster {cluster.name!r} lacks "
            f"(its peak_flops has {has}): expected one of these, or emulate: fp32 "
            "beside it to multiply at the FP32 rate there"
        )
        raise Fault(msg, "precision")
    if device.lacks(training.emulate):
        msg = (
            f"is {training.emulate!r}, which {device.name} of cluster "
            f"{cluster.name!r} lacks (its peak_flops has {has}), expected its rate in "
            "peak_flops: {fp32: 15.7 TFLOPS}"
        )
        raise Fault(msg, "emulate")


def fitting_pins(value: Any, read: Callable[[Any], Pins], info: ValidationInfo) -> Pins:
    """Return pins that contradict neither each other nor the other sections."""
    pins, names = read(value), _names(info)
    sections = ("model", "clusters", "links", "training")
    if info.context is None or names is None or not info.data.keys() >= {*sections}:
        return pins
    ensure_names(value, names)
    return fitted_pins(pins, *(info.data[section] for section in sections))


def latency_sources(value: Any, info: ValidationInfo) -> Any:
    """Return the latency source of every cluster, by default ``auto``."""
    if info.context is None:
        return value
    names, files = _names(info), info.context

    def read(source: Any) -> str:
        if not isinstance(source, str) or not source:
            known = f"{', '.join(LATENCY_SOURCES)}, or a profile's name or path"
            raise Fault(f"is {describe(source)}, expected {known}")
        return source

    given = by_key(read, value, "such as {a100: auto}")
    if names is None:
        return given
    found = dict.fromkeys(names, AUTO)
    for name, source in given.items():
        ensure_cluster(name, names, name)
        found[name] = files.profile(name, source)
    return found


def of_clusters(calibration: Calibration, info: ValidationInfo) -> Calibration:
    """Return corrections of clusters that there are."""
    names = _names(info)
    if info.context is None or names is None:
        return calibration
    for name in calibration.efficiency:
        ensure_cluster(name, names, "efficiency", name)
    for name, size in calibration.overheads.items():
        ensure_cluster(name, names, "overhead", name)
        cluster = info.data["clusters"][names.index(name)]
        with inside("overhead", name):
            ensure_overhead(size, cluster.memory_bytes)
    return calibration


def _names(info: ValidationInfo) -> tuple[str, ...] | None:
    """Return the names of the clusters; None if these are wrong."""
    clusters = info.data.get("clusters")
    return None if clusters is None else tuple(each.name for each in clusters)
