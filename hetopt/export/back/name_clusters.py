"""Finds the cluster that runs each stage of a pipeline that is read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import counted, describe
from hetopt.errors import InputError
from hetopt.export.labels import labels
from hetopt.export.shared.losses import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.export.pipeline import PipelineReadBack, StageReadBack
    from hetopt.problem.problem import Problem


def name_clusters(pipeline: PipelineReadBack, problem: Problem) -> tuple[str, ...]:
    """Return the cluster of every stage.

    A stage belongs to the cluster that the files name, else to the cluster with its
    hosts, else to the cluster whose accelerator they name. If the files say none of
    these, the stages in pipeline order have to use up whole clusters one after the
    other, in one way only.

    Raises
    ------
    InputError
        A name or host belongs to no cluster or to several, or the numbers of devices
        do not decide.
    """
    known = [
        _told(number, stage, problem) for number, stage in enumerate(pipeline.stages)
    ]
    if len(problem.clusters) == 1:
        return tuple(name or problem.clusters[0].name for name in known)
    named = [name for name in known if name is not None]
    if len(named) == len(known):
        return tuple(named)
    devices = [stage.strategy.devices for stage in pipeline.stages]
    fits = [fit for fit in _fits(problem, devices, known) if _keeps_order(problem, fit)]
    if len(fits) == 1:
        return fits[0]
    remedy = "list the `hosts` of the clusters in the problem file, or pin the `order`"
    if not fits:
        msg = (
            "the files do not name the clusters of the "
            f"{counted(len(devices), 'stage')}, and their devices ({listed(devices)}) "
            "use up no clusters one after the other: list the `hosts` of the clusters "
            "in the problem file"
        )
    else:
        ways = [", ".join(dict.fromkeys(fit)) for fit in fits[:2]]
        msg = (
            "the files do not name the clusters of the stages, and their devices fit "
            f"{' as well as '.join(ways)}: {remedy}"
        )
    raise InputError(msg, field="clusters")


def _told(number: int, stage: StageReadBack, problem: Problem) -> str | None:
    """Return the cluster that the files name; None if they name none."""
    names = [cluster.name for cluster in problem.clusters]
    by_host = _by_host(number, stage, problem)
    if stage.cluster is None:
        return by_host
    spelled = labels(names)
    for name in names:
        if stage.cluster in (name, spelled[name]):
            return name
    if by_host is not None:
        return by_host
    wanted = stage.cluster.lower()
    kinds = {c.name: c.accelerator.name.lower() for c in problem.clusters}
    found = [name for name, kind in kinds.items() if kind == wanted] or [
        name for name, kind in kinds.items() if kind.startswith(f"{wanted}-")
    ]
    if len(found) == 1:
        return found[0]
    which = f"{' and '.join(found)} have" if found else "no cluster is or has"
    msg = (
        f"{describe(stage.cluster)}: {which} this name or accelerator, expected a name "
        f"that tells {', '.join(names)} apart"
    )
    raise InputError(msg, field=f"stage {number}")


def _by_host(number: int, stage: StageReadBack, problem: Problem) -> str | None:
    """Return the cluster that lists a stage's hosts; None if none lists any."""
    owner = {
        host: cluster.name
        for cluster in problem.clusters
        for host in cluster.hosts or ()
    }
    found = [owner.get(host) for host in stage.hosts]
    names = list(dict.fromkeys(name for name in found if name is not None))
    if len(names) > 1:
        msg = f"its hosts are of clusters {' and '.join(names)}, expected one"
        raise InputError(msg, field=f"stage {number}")
    if not names:
        return None
    if None in found:
        msg = (
            f"host {describe(stage.hosts[found.index(None)])} is of no cluster, "
            f"others are of {names[0]!r}"
        )
        raise InputError(msg, field=f"stage {number}")
    return names[0]


def _fits(
    problem: Problem,
    devices: Sequence[int],
    known: Sequence[str | None],
    before: tuple[str, ...] = (),
) -> Iterator[tuple[str, ...]]:
    """Yield every way to fill whole clusters with runs of stages, each cluster once."""
    if len(before) == len(devices):
        yield before
        return
    for cluster in problem.clusters:
        if cluster.name in before:
            continue
        taken, end = 0, len(before)
        while end < len(devices) and taken < cluster.devices:
            if known[end] not in (None, cluster.name):
                break
            taken += devices[end]
            end += 1
        if taken == cluster.devices:
            own = (cluster.name,) * (end - len(before))
            yield from _fits(problem, devices, known, before + own)


def _keeps_order(problem: Problem, clusters: Sequence[str]) -> bool:
    order = problem.pins.order
    return order is None or tuple(dict.fromkeys(clusters)) == order
