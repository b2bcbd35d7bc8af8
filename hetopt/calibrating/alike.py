"""What problems must have in common for their runs to be calibrated together.

A factor corrects rates that a problem states, so all problems have to state the same
rates: of devices, of links inside and between nodes, of links between clusters.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from itertools import combinations
from pathlib import PurePath
from typing import TYPE_CHECKING

from hetopt.base.reading import MOST_TEXT_BYTES, read_bytes
from hetopt.errors import InputError
from hetopt.problem.catalogue import PROFILE_SUFFIX
from hetopt.problem.fields import AUTO

if TYPE_CHECKING:
    from hetopt.calibrating.runs import MeasuredRun
    from hetopt.problem.cluster.accelerator import Link
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.cluster.links import ClusterLink
    from hetopt.problem.problem import Problem


def ensure_alike(first: MeasuredRun, other: MeasuredRun) -> None:
    """Refuse a run whose problem cannot share factors with that of the first run.

    Raises
    ------
    InputError
        Clusters, links, latency sources or calibrations differ; names the other's file
        and field.
    """
    names = [[c.name for c in run.problem.clusters] for run in (first, other)]
    if sorted(names[0]) != sorted(names[1]):
        msg = (
            f"are {', '.join(names[1])}, expected those of {first.name} "
            f"({', '.join(names[0])}): calibrate runs on the same clusters together"
        )
        raise InputError(msg, file=other.name, field="clusters")
    wanted = _facts(first.problem)
    for field, value in _facts(other.problem).items():
        # A field that the first problem does not have affects none of its prices.
        if value != wanted.get(field, value):
            msg = (
                f"is {value}, expected {wanted[field]} as in {first.name}: runs are "
                "calibrated together from the same start; give both the same, or "
                "calibrate each by itself"
            )
            raise InputError(msg, file=other.name, field=field)


def _facts(problem: Problem) -> dict[str, str]:
    """Return the values that have to be equal, by field."""
    calibration = problem.calibration
    found = {
        "calibration.bandwidth": f"{calibration.bandwidth:g}",
        "calibration.intra_node": f"{calibration.intra_node:g}",
    }
    several = len(problem.clusters) > 1
    for cluster in problem.clusters:
        name = cluster.name
        efficiency = calibration.efficiency_of(name)
        source = problem.latency.get(name, AUTO)
        found |= {
            f"latency.{name}": _of_source(source),
            f"calibration.efficiency.{name}": f"{efficiency:g}",
        }
        own = _of_device(cluster)
        if several or cluster.nodes > 1:
            own |= _of_network(cluster)
        found |= {f"clusters.{name}.{field}": value for field, value in own.items()}
    for pair in combinations(sorted(cluster.name for cluster in problem.clusters), 2):
        between = _of_cluster_link(problem.links.between(*pair))
        where = f"links between {' and '.join(pair)}"
        found |= {f"{where}: {field}": value for field, value in between.items()}
    return found


def _of_source(source: str) -> str:
    """Return a latency source; of a file its name, and a digest of its content."""
    if not source.endswith(PROFILE_SUFFIX):
        return source
    content = read_bytes(source, "a profile", MOST_TEXT_BYTES)
    digest = hashlib.sha256(content).hexdigest()
    return f"{PurePath(source).name} (sha256 {digest[:12]})"


def _of_device(cluster: Cluster) -> dict[str, str]:
    """Return the rates of a cluster's devices and of the links inside its nodes."""
    device, group, domain = cluster.accelerator, cluster.group, cluster.domain
    flops = {
        f"accelerator.peak_flops.{name}": _flops(getattr(device.peak_flops, name))
        for name in device.peak_flops.known
    }
    inside = {} if group is None else _of_link("group", group.link)
    if domain is not None:
        inside |= {"domain.nodes": str(domain.nodes), **_of_link("domain", domain.link)}
    return {
        "accelerator": device.origin,
        **flops,
        "accelerator.memory_bandwidth": _rate(device.memory_bandwidth_bytes_per_s),
        "overhead": f"{cluster.overhead_bytes} bytes",
        "host_memory_bandwidth": _rate(cluster.host_memory_bytes_per_s),
        **_of_link("intra_node", cluster.intra_node),
        **_of_link("host_device", cluster.host_device),
        "group.size": "none" if group is None else str(group.size),
        **inside,
    }


def _of_network(cluster: Cluster) -> dict[str, str]:
    """Return the rates of the links between a cluster's nodes and out of it."""
    per_device = Fraction(cluster.nics_per_node, cluster.devices_per_node)
    return {
        **_of_link("inter_node", cluster.inter_node),
        "nics_per_node": f"{per_device} per device",
        "uplink": _rate(cluster.uplink_bytes_per_s),
    }


def _of_cluster_link(link: ClusterLink | None) -> dict[str, str]:
    if link is None:
        return {"bandwidth": "none"}
    return {
        "bandwidth": _rate(link.capacity_bytes_per_s),
        "per_node": _rate(link.node_bytes_per_s),
        "per_connection": _rate(link.connection_bytes_per_s),
        "latency": _time(link.latency_s),
        "per_message": _time(link.message_s),
        "staged": link.staged,
    }


def _of_link(name: str, link: Link) -> dict[str, str]:
    return {
        f"{name}.bandwidth": _rate(link.bandwidth_bytes_per_s),
        f"{name}.latency": _time(link.latency_s),
    }


def _rate(bytes_per_s: float | None) -> str:
    return "unlimited" if bytes_per_s is None else f"{bytes_per_s / 1e9:g} GB/s"


def _flops(per_s: float) -> str:
    return f"{per_s / 1e12:g} TFLOPS"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:g} us"
