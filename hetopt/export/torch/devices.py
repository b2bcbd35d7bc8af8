"""What the ranks of each cluster run on, and which clusters reach each other directly.

Devices of one driver share a collective library. Clusters of one driver are in one
*group*, whose devices send to each other directly, if the problem has ``staged:
device`` between them; transfers between groups go through the hosts (``staged: host``;
HetAuto, sections 5.1 and 6). Clusters without a link are in one group only if others of
the group lead from one to the other.
"""

from __future__ import annotations

from itertools import chain, combinations, pairwise, product
from typing import TYPE_CHECKING, NamedTuple

from hetopt.export.launcher import Loss
from hetopt.export.torch.job_file import ClusterDevices
from hetopt.problem.facts import CUDA_VISIBLE_DEVICES
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hetopt.export.job import Job
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.cluster.links import ClusterLinks
    from hetopt.problem.problem import Problem


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


def devices_of(job: Job) -> dict[str, ClusterDevices]:
    """Return what the ranks of each cluster that a job uses run on, by its name."""
    groups, _ = _grouped(used_clusters(job), job.problem.links, _crossed(job))
    return {
        each.name: ClusterDevices(**_LIBRARIES[_driver(each)]._asdict(), group=number)
        for number, group in enumerate(groups)
        for each in group
    }


def device_notes(clusters: Sequence[Cluster]) -> Iterator[str]:
    """Yield which clusters have devices whose type is assumed, as nothing states it."""
    for each in clusters:
        own = each.accelerator
        if not (own.preset or own.like or own.visible_devices != CUDA_VISIBLE_DEVICES):
            what = f"device type of {own.name!r} is not known, taken as cuda"
            yield f"cluster {each.name}: {what}"


def device_losses(job: Job) -> Iterator[Loss]:
    """Yield devices and transfers of a job that the program lacks.

    None that it yields of one of the job's pipelines.
    """
    known = {loss for part in job.parts for loss in device_losses(part)}
    _, losses = _grouped(used_clusters(job), job.problem.links, _crossed(job))
    yield from (loss for loss in losses if loss not in known)


def search_losses(problem: Problem) -> list[Loss]:
    """Return devices and transfers that the program lacks, and that plans may have.

    In a pinned order neighbours exchange something, else any two clusters may.
    """
    clusters, order = problem.usable_clusters, problem.pins.order
    pairs = combinations([each.name for each in clusters], 2)
    crossed = _along(problem, order) if order else pairs
    return _grouped(clusters, problem.links, crossed)[1]


def used_clusters(job: Job) -> tuple[Cluster, ...]:
    """Return the clusters of all pipelines."""
    found = {own.name: own for part in job.pipelines for own in part.clusters}
    return tuple(found.values())


def _driver(cluster: Cluster) -> str:
    return cluster.accelerator.visible_devices


def _crossed(job: Job) -> Iterable[tuple[str, str]]:
    """Return the clusters that exchange something, in and between pipelines."""
    lines = [[stage.cluster for stage in part.stages] for part in job.pipelines]
    between = (product(*pair) for pair in combinations(lines, 2))
    return chain(*(_along(job.problem, line) for line in lines), *between)


def _along(problem: Problem, line: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Return neighbours in a pipeline, and its ends if they exchange something."""
    training = problem.training
    tied = problem.model.tied and not rule_of(training.schedule).folded
    return pairwise((*line, line[0]) if tied or training.chunks > 1 else line)


def _grouped(
    clusters: Sequence[Cluster], links: ClusterLinks, crossed: Iterable[tuple[str, str]]
) -> tuple[list[list[Cluster]], list[Loss]]:
    """Return groups, and the devices and direct transfers that these cannot have.

    Clusters that exchange something are grouped first, so that no other ones part them.

    Parameters
    ----------
    crossed
        Names of clusters that exchange something.
    """
    exchange = set(map(frozenset, crossed))
    losses = [_unknown(each) for each in clusters if _driver(each) not in _LIBRARIES]
    groups = {each.name: [each] for each in clusters}
    pairs = [(frozenset({a.name, b.name}), a, b) for a, b in combinations(clusters, 2)]
    for names, a, b in sorted(pairs, key=lambda pair: pair[0] not in exchange):
        own, others, link = groups[a.name], groups[b.name], links.between(*names)
        if own is others or link is None or link.staged == "host":
            continue
        apart = [pair for pair in product(own, others) if _is_staged(*pair, links)]
        if not apart:
            own += others
            groups |= dict.fromkeys((each.name for each in others), own)
        elif names in exchange:
            losses.append(_direct(a, b, *apart[0]))
    return [own for name, own in groups.items() if own[0].name == name], losses


def _is_staged(one: Cluster, other: Cluster, links: ClusterLinks) -> bool:
    """Whether two clusters cannot be in one group."""
    link = links.between(one.name, other.name)
    staged = link is not None and link.staged == "host"
    return staged or _driver(one) != _driver(other)


def _unknown(cluster: Cluster) -> Loss:
    """Return the loss of a cluster's devices."""
    return Loss(
        what=f"devices of cluster {cluster.name} ({_driver(cluster)}), for which it "
        "knows no device type of PyTorch",
    )


def _direct(one: Cluster, other: Cluster, a: Cluster, b: Cluster) -> Loss:
    """Return the loss of transfers from device to device, as a and b are apart."""
    why = ", whose devices share no collective library: set staged: host"
    if _driver(a) == _driver(b):
        why = (
            f", but host between {a.name} and {b.name}, so that they cannot all be in "
            f"one group: set staged: host between {one.name} and {other.name} too"
        )
    return Loss(
        what=f"staged: device between {one.name} and {other.name}{why}",
        instead="transfers through the hosts, as staged: host",
    )
