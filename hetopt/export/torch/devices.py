"""What the ranks of each cluster run on, and which clusters reach each other directly.

Devices of one driver share a collective library. Clusters of one driver are in one
*group*, whose devices send to each other directly, unless the problem stages transfers
between them through the hosts (``staged: host``); transfers between groups always are
(HetAuto, sections 5.1 and 6).
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from hetopt.export.launcher import Loss

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.export.job import Job
    from hetopt.problem.cluster.cluster import Cluster, ClusterLinks


class Library(NamedTuple):
    """PyTorch's names for the devices of a driver, and for their collective library."""

    device: str
    backend: str


#: By the variable that limits a process to some of a driver's devices. PyTorch for ROCm
#: has CUDA's names (https://docs.pytorch.org/docs/2.13/notes/hip.html); Ascend's are in
#: https://gitcode.com/Ascend/op-plugin/blob/7.3.0/docs/context/torch-distributed-distributed_c10d.md.
_LIBRARIES = {
    "CUDA_VISIBLE_DEVICES": Library("cuda", "nccl"),
    "HIP_VISIBLE_DEVICES": Library("cuda", "nccl"),
    "ASCEND_RT_VISIBLE_DEVICES": Library("npu", "hccl"),
}


class ClusterDevices(NamedTuple):
    """What ``job.json`` says of a cluster."""

    device: str
    backend: str
    group: int


def devices_of(job: Job) -> dict[str, ClusterDevices]:
    """Return what the ranks of each cluster that a job uses run on, by its name."""
    groups = _groups(_used(job), job.problem.links)
    return {
        each.name: ClusterDevices(*_LIBRARIES[_driver(each)], number)
        for number, group in enumerate(groups)
        for each in group
    }


def device_losses(job: Job) -> Iterator[Loss]:
    """Yield what ``link_losses`` says of a job, but of none of its pipelines."""
    known = {loss for part in job.parts for loss in device_losses(part)}
    for loss in link_losses(_used(job), job.problem.links):
        if loss not in known:
            yield loss


def link_losses(clusters: Sequence[Cluster], links: ClusterLinks) -> Iterator[Loss]:
    """Yield transfers and devices of some clusters that the program cannot have."""
    for cluster in clusters:
        if _driver(cluster) not in _LIBRARIES:
            yield Loss(
                what=f"devices of cluster {cluster.name} ({_driver(cluster)}), for "
                "which it knows no device type of PyTorch",
                instead=None,
            )
    groups = _groups(clusters, links)
    for one, other in combinations(clusters, 2):
        link = links.between(one.name, other.name)
        apart = not any(one in group and other in group for group in groups)
        if apart and link is not None and link.staged == "device":
            yield Loss(
                what=f"staged: device between {one.name} and {other.name}, whose "
                "devices share no collective library: set staged: host",
                instead="transfers through the hosts, as staged: host",
            )


def _used(job: Job) -> tuple[Cluster, ...]:
    """Return the clusters of all pipelines."""
    found = {own.name: own for part in job.pipelines for own in part.clusters}
    return tuple(found.values())


def _driver(cluster: Cluster) -> str:
    return cluster.accelerator.visible_devices


def _groups(clusters: Sequence[Cluster], links: ClusterLinks) -> list[list[Cluster]]:
    """Return groups of clusters that all reach each other directly."""
    groups: list[list[Cluster]] = []
    for cluster in clusters:
        for group in groups:
            if all(_direct(cluster, other, links) for other in group):
                group.append(cluster)
                break
        else:
            groups.append([cluster])
    return groups


def _direct(one: Cluster, other: Cluster, links: ClusterLinks) -> bool:
    link = links.between(one.name, other.name)
    alike = _driver(one) == _driver(other)
    return alike and (link is None or link.staged == "device")
