"""Build ``Pins`` from the ``pin`` section: which values decisions may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.base.record import Fault
from hetopt.base.words import counted
from hetopt.problem.building.names import check_cluster
from hetopt.problem.building.pinned_meshes import check_meshes
from hetopt.problem.meshes import Mesh
from hetopt.problem.pinned_units import units_fault
from hetopt.problem.schema.pins import ForbidSpec
from hetopt.problem.training.pins import ANY, ClusterPins, Domain, Pins

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.document.document import FieldPath
    from hetopt.problem.model.model import Model
    from hetopt.problem.schema.pins import ClusterPinSpec, PinSpec
    from hetopt.problem.training.training import Training

_PIN: FieldPath = ("pin",)
_FORBID: FieldPath = ("pin", "forbid")


def build_pins(
    spec: PinSpec | None,
    model: Model,
    clusters: tuple[Cluster, ...],
    training: Training,
) -> Pins:
    """Return the pins; Fault if they contradict each other or the problem.

    Pins that no plan satisfies for a reason such as memory pass: the solver reports
    that there is no plan.
    """
    if spec is None:
        return Pins()
    names = tuple(cluster.name for cluster in clusters)
    forbid = spec.forbid or ForbidSpec()
    for path, mapping in (
        ((*_PIN, "clusters"), spec.clusters),
        ((*_FORBID, "clusters"), forbid.clusters),
    ):
        for name in mapping:
            check_cluster(name, names, (*path, name))
    pins = Pins(
        stages=_domain(spec.stages, forbid.stages, "stages"),
        microbatches=_domain(spec.microbatches, forbid.microbatches, "microbatches"),
        order=_order(spec.order, names),
        forbidden_next=_forbidden_next(forbid.next, names),
        units=spec.units,
        clusters={
            cluster.name: pins
            for cluster in clusters
            if (
                pins := _cluster_pins(
                    spec.clusters.get(cluster.name),
                    forbid.clusters.get(cluster.name),
                    cluster,
                    training,
                )
            )
            != ClusterPins()
        },
        resharding=_domain(spec.resharding, forbid.resharding, "resharding"),
    )
    _check_counts(pins, spec, model, clusters, training)
    _check_units(pins, model, training)
    _check_hosting(pins, names)
    check_meshes(pins, model, clusters, training)
    return pins


def _domain(
    allowed: tuple[Any, ...] | None, forbidden: tuple[Any, ...] | None, *path: str
) -> Domain:
    if allowed is None and forbidden is None:
        return ANY
    domain = Domain(
        allowed=None if allowed is None else frozenset(allowed),
        forbidden=frozenset(forbidden or ()),
    )
    if allowed is not None and not any(domain.permits(value) for value in allowed):
        raise Fault("forbids all pinned values", *_FORBID, *path)
    return domain


def _order(
    order: tuple[str, ...] | None, names: tuple[str, ...]
) -> tuple[str, ...] | None:
    path = (*_PIN, "order")
    if order == ():
        raise Fault("is an empty list, expected cluster names", *path)
    for index, name in enumerate(order or ()):
        check_cluster(name, names, (*path, index))
        if order is not None and name in order[:index]:
            msg = f"is {name!r} a second time; a cluster's stages are consecutive"
            raise Fault(msg, *path, index)
    return order


def _forbidden_next(
    pairs: tuple[tuple[str, ...], ...] | None, names: tuple[str, ...]
) -> frozenset[tuple[str, str]]:
    found = set()
    for index, pair in enumerate(pairs or ()):
        path = (*_FORBID, "next", index)
        if len(pair) != 2:
            msg = (
                f"names {counted(len(pair), 'cluster')}, expected a pair such as "
                "[a100, h20]"
            )
            raise Fault(msg, *path)
        for position, name in enumerate(pair):
            check_cluster(name, names, (*path, position))
        if pair[0] == pair[1]:
            raise Fault(f"names {pair[0]!r} twice, expected two clusters", *path)
        found.add((pair[0], pair[1]))
    return frozenset(found)


def _cluster_pins(
    pinned: ClusterPinSpec | None,
    forbidden: ClusterPinSpec | None,
    cluster: Cluster,
    training: Training,
) -> ClusterPins:
    domains: dict[str, Domain] = {}
    for field in ("stages", "units", *Mesh._fields, "recompute"):
        domains[field] = _domain(
            getattr(pinned, field, None),
            getattr(forbidden, field, None),
            "clusters",
            cluster.name,
            field,
        )
    path = (*_PIN, "clusters", cluster.name)
    limits = {
        "stages": (cluster.devices, "its devices"),
        "dp": (cluster.devices, "its devices"),
        "cp": (cluster.devices, "its devices"),
        "tp": (cluster.max_tp, "its max_tp"),
        "ep": (cluster.devices, "its devices"),
        "etp": (cluster.max_tp, "its max_tp"),
    }
    for field, (limit, what) in limits.items():
        for value in getattr(pinned, field, None) or ():
            if value > limit:
                msg = f"is {value}, more than {what} ({limit})"
                raise Fault(msg, *path, field)
    policies = training.recompute[cluster.name]
    if not any(domains["recompute"].permits(policy) for policy in policies):
        msg = f"permits none of training.recompute's {', '.join(policies)}"
        raise Fault(msg, *path, "recompute")
    return ClusterPins(**domains)


def _check_counts(
    pins: Pins,
    spec: PinSpec,
    model: Model,
    clusters: tuple[Cluster, ...],
    training: Training,
) -> None:
    body = len(model.units) - 2
    devices = sum(cluster.devices for cluster in clusters)
    for value in spec.stages or ():
        if value > min(body, devices):
            msg = (
                f"is {value}, expected at most {min(body, devices)}: the model has "
                f"{counted(body, 'unit')} to cut between and the clusters "
                f"{counted(devices, 'device')}"
            )
            raise Fault(msg, *_PIN, "stages")
    batch = training.global_batch
    for value in spec.microbatches or ():
        if batch % value:
            msg = f"is {value}, expected a divisor of the global batch ({batch})"
            raise Fault(msg, *_PIN, "microbatches")


def _check_units(pins: Pins, model: Model, training: Training) -> None:
    units = pins.units
    if units is None:
        return
    fault = None if training.any_schedule else units_fault(units, model, training)
    if fault is not None:
        path, message = fault
        raise Fault(message, *path)
    if not pins.stages.permits(len(units)):
        msg = (
            f"lists {counted(len(units), 'stage')}, which pin.stages or pin.forbid "
            "rules out"
        )
        raise Fault(msg, *_PIN, "units")


def _check_hosting(pins: Pins, names: tuple[str, ...]) -> None:
    """Check pinned order, stages, and units of clusters and overall for agreement."""
    for name in names:
        path = (*_PIN, "clusters", name, "stages")
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
        raise Fault(msg, *_PIN, "clusters")
