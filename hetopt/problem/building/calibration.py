"""A problem's calibration: its factors, and the overheads of its clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.problem.building.devices import check_overhead
from hetopt.problem.building.names import check_cluster
from hetopt.problem.calibration import NO_CALIBRATION, Calibration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.document.document import FieldPath
    from hetopt.problem.schema.calibration import CalibrationSpec


def build_calibration(
    spec: CalibrationSpec | None, names: tuple[str, ...]
) -> Calibration:
    """Return the factors; Fault if they name an unknown cluster."""
    if spec is None:
        return NO_CALIBRATION
    for known in spec.efficiency or {}:
        check_cluster(known, names, ("calibration", "efficiency", known))
    return Calibration(
        efficiency=spec.efficiency or {},
        bandwidth=spec.bandwidth,
        intra_node=spec.intra_node,
        overheads=frozenset(spec.overhead or {}),
        reserve=spec.reserve,
    )


def with_overhead(
    clusters: list[Cluster], measured: Mapping[str, int]
) -> list[Cluster]:
    """Return the clusters with the overheads that a calibration gives by name."""
    names = tuple(cluster.name for cluster in clusters)
    for name, size in measured.items():
        path: FieldPath = ("calibration", "overhead", name)
        check_cluster(name, names, path)
        check_overhead(size, clusters[names.index(name)].memory_bytes, path)
    return [
        replace(
            cluster, overhead_bytes=measured.get(cluster.name, cluster.overhead_bytes)
        )
        for cluster in clusters
    ]
