"""Pins that contradict each other, or the problem: values that decisions may take."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hetopt.base.faults import Fault
from hetopt.base.fields import unknown
from hetopt.base.words import counted
from hetopt.problem.building.pinned_meshes import check_meshes
from hetopt.problem.layout import cuts_of
from hetopt.problem.pinned_units import cuts_fault, units_fault
from hetopt.problem.training.pins import ANY, NO_CLUSTER_PINS, ClusterPins, Pins

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.cluster.links import ClusterLinks
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.training import Training


def fitted_pins(
    pins: Pins,
    model: Model,
    clusters: tuple[Cluster, ...],
    links: ClusterLinks,
    training: Training,
) -> Pins:
    """Return the pins, without clusters that have none.

    Pins that no plan satisfies for a reason such as memory pass: the solver reports
    that there is no plan.

    Raises
    ------
    Fault
        The pins contradict each other or the problem.
    """
    names = tuple(cluster.name for cluster in clusters)
    _check_neighbours(pins.order, links)
    for cluster in clusters:
        _check_cluster(pins.of(cluster.name), cluster, training)
    _check_counts(pins, model, clusters, training)
    _check_units(pins, model, training)
    pins = _with_cuts(pins, model, training)
    _check_hosting(pins, names)
    check_meshes(pins, model, clusters, training)
    own = {name: pins.of(name) for name in names}
    kept = {name: each for name, each in own.items() if each != NO_CLUSTER_PINS}
    return replace(pins, clusters=kept)


def ensure_names(given: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Raise Fault if what a file gives names another cluster, or one twice.

    Parameters
    ----------
    given
        The section, which can be read.
    """
    forbid = given.get("forbid") or {}
    for section, *path in ((given,), (forbid, "forbid")):
        for name in section.get("clusters") or ():
            ensure_cluster(name, names, *path, "clusters", name)
    for index, pair in enumerate(forbid.get("next") or ()):
        for position, name in enumerate(pair):
            ensure_cluster(str(name), names, "forbid", "next", index, position)
    order: Any = given.get("order")
    if order == []:
        raise Fault("is an empty list, expected cluster names", "order")
    for index, name in enumerate(order or ()):
        ensure_cluster(str(name), names, "order", index)
        if name in order[:index]:
            msg = f"is {str(name)!r} a second time; a cluster's stages are consecutive"
            raise Fault(msg, "order", index)


def ensure_cluster(name: str, names: tuple[str, ...], *path: str | int) -> None:
    """Raise Fault unless the problem has a cluster of this name."""
    if name not in names:
        raise Fault(unknown(name, "a cluster of this problem", names), *path)


def _check_neighbours(order: tuple[str, ...] | None, links: ClusterLinks) -> None:
    """Refuse a pinned order with neighbours that no link joins."""
    for first, second in pairwise(order or ()):
        if links.between(first, second) is None:
            msg = f"puts {second!r} after {first!r}, and there is no link between them"
            raise Fault(msg, "order")


def _check_cluster(pins: ClusterPins, cluster: Cluster, training: Training) -> None:
    """Refuse pinned degrees that a cluster cannot have."""
    limits = {
        "stages": (cluster.devices, "its devices"),
        "dp": (cluster.devices, "its devices"),
        "cp": (cluster.devices, "its devices"),
        "tp": (cluster.max_tp, "its max_tp"),
        "ep": (cluster.devices, "its devices"),
        "etp": (cluster.max_tp, "its max_tp"),
    }
    for field, (limit, what) in limits.items():
        for value in getattr(pins, field).values:
            if value > limit:
                msg = f"is {value}, more than {what} ({limit})"
                raise Fault(msg, "clusters", cluster.name, field)
    policies = training.recompute[cluster.name]
    if not any(map(pins.recompute.permits, policies)):
        msg = f"permits none of training.recompute's {', '.join(policies)}"
        raise Fault(msg, "clusters", cluster.name, "recompute")


def _check_counts(
    pins: Pins,
    model: Model,
    clusters: tuple[Cluster, ...],
    training: Training,
) -> None:
    body = len(model.units) - 2
    devices = sum(cluster.devices for cluster in clusters)
    for value in pins.stages.values:
        if value > min(body, devices):
            msg = (
                f"is {value}, expected at most {min(body, devices)}: the model has "
                f"{counted(body, 'unit')} to cut between and the clusters "
                f"{counted(devices, 'device')}"
            )
            raise Fault(msg, "stages")
    batch = training.global_batch
    for value in pins.microbatches.values:
        if batch % value:
            msg = f"is {value}, expected a divisor of the global batch ({batch})"
            raise Fault(msg, "microbatches")


def _check_units(pins: Pins, model: Model, training: Training) -> None:
    units = pins.units
    if units is None:
        return
    fault = None if training.any_schedule else units_fault(units, model, training)
    if fault is not None:
        raise fault
    if not pins.stages.permits(len(units)):
        msg = (
            f"lists {counted(len(units), 'stage')}, which pin.stages or pin.forbid "
            "rules out"
        )
        raise Fault(msg, "units")


def _with_cuts(pins: Pins, model: Model, training: Training) -> Pins:
    """Return the pins with the cuts that a layout says."""
    name = pins.cuts_key
    if pins.cuts is None and pins.layout is None:
        return pins
    if pins.layout is not None:
        if pins.cuts is not None:
            raise Fault("is given beside cuts, expected one of the two", name)
        try:
            pins = replace(pins, cuts=cuts_of(pins.layout, model))
        except ValueError as error:
            raise Fault(str(error), name) from None
    assert pins.cuts is not None
    fault = cuts_fault(pins.cuts, model, training)
    if fault is not None:
        raise Fault(fault, name)
    if pins.units is not None:
        raise Fault(f"is given beside {name}, expected one of the two", "units")
    stages = len(pins.cuts) // training.chunks
    if not pins.stages.permits(stages):
        msg = (
            f"has {counted(stages, 'stage')}, which pin.stages or pin.forbid rules out"
        )
        raise Fault(msg, name)
    return pins


def _check_hosting(pins: Pins, names: tuple[str, ...]) -> None:
    """Check pinned order, stages, and units of clusters and overall for agreement."""
    for name in names:
        path = ("clusters", name, "stages")
        stages = pins.of(name).stages
        if pins.order is None or stages == ANY:
            continue
        used = name in pins.order
        if not used and not stages.permits(0):
            msg = f"needs cluster {name!r}, which pin.order leaves out"
            raise Fault(msg, *path)
        if used and stages.allowed == frozenset({0}):
            msg = f"is 0, but pin.order uses cluster {name!r}"
            raise Fault(msg, *path)
    _check_sum(pins, names, "stages", _permitted_stages(pins))
    units = None if pins.units is None else frozenset({sum(pins.units)})
    _check_sum(pins, names, "units", units)


def _permitted_stages(pins: Pins) -> frozenset[Any] | None:
    if pins.units is not None:
        return frozenset({len(pins.units)})
    return pins.stages.allowed


def _check_sum(
    pins: Pins,
    names: tuple[str, ...],
    field: str,
    permitted: frozenset[Any] | None,
) -> None:
    """Check a pinned total against the clusters, where each is pinned to one value."""
    fixed: Mapping[str, frozenset[Any] | None] = {
        name: getattr(pins.of(name), field).allowed for name in pins.order or names
    }
    values = [next(iter(item)) for item in fixed.values() if item and len(item) == 1]
    if permitted is None or len(values) < len(fixed):
        return
    if sum(values) not in permitted:
        listed = " or ".join(map(str, sorted(permitted)))
        msg = f"pins {sum(values)} {field} in all, but {listed} are pinned overall"
        raise Fault(msg, "clusters")
