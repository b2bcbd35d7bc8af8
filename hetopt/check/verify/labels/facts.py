"""The facts that labels need of one q of a table."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetopt.check.plan.schedule.schedules import STEPS, Steps
from hetopt.check.verify.labels.data import Cost, Facts, Path, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.check.verify.hosting import Host
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem

    Ints = NDArray[np.int64]


def _crossing(part: TableSlice, cuts: Sequence[int]) -> tuple[Ints, Ints, Ints]:
    """Compare the layouts of each cluster if another cluster's stage comes before.

    Returns ``dearer``, ``slower`` and ``dearest`` of ``Facts``.
    """
    layouts = part.transfer_ns.shape[1]
    dearer = np.zeros((layouts, layouts), dtype=np.int64)
    slower, dearest = np.zeros_like(dearer), np.zeros(layouts, dtype=np.int64)
    classes = sorted(set(cuts))
    for j, cluster in enumerate(part.clusters):
        own = np.unique(cluster.layout)
        others = [other.layout for i, other in enumerate(part.clusters) if i != j]
        before = np.unique(np.concatenate(others)) if others else own[:0]
        if not len(own) or not len(before) or not classes:
            continue
        # Into each own layout, by cut class and preceding layout: (N, own).
        kappa, omega = (
            times[classes][:, before][:, :, own].reshape(-1, len(own))
            for times in (part.transfer_ns, part.occupancy_ns)
        )
        dearest[own] = kappa.max(axis=0)
        for a, home in enumerate(own):
            dearer[home, own] = (kappa[:, a, None] - kappa).max(axis=0)
            more = omega[:, a, None] > omega
            slower[home, own] = np.where(more, omega[:, a, None], 0).max(axis=0)
    return dearer, slower, dearest


def _unit_costs(host: Host) -> Ints:
    """Return the columns of ``Cost`` of one unit; shape (options, kinds, columns)."""
    own, times = host.rows, host.times
    columns = (
        times.forward,
        times.busy - times.forward,
        own.state_bytes,
        own.activation_bytes,
        own.temporary_bytes,
        times.end,
        times.busy - times.handed_on,
        times.fill,
    )
    return np.stack(columns, axis=2)


def _end_costs(cost: Ints, counts: Ints) -> Ints:
    """Return the costs of an end's units by strategy; shape (options, columns)."""
    total = np.einsum("onc,n->oc", cost, counts)
    total[:, Cost.TEMPORARY] = cost[:, counts > 0, Cost.TEMPORARY].max(
        axis=1, initial=0
    )
    return np.ascontiguousarray(total)


def _follows(problem: Problem, names: Sequence[str]) -> NDArray[np.bool_]:
    """Return whether pins and links allow cluster j directly after i; (C, C)."""
    order = problem.pins.order
    allowed = [
        (i, j) not in problem.pins.forbidden_next
        and (order is None or (i, j) in pairwise(order))
        and (i == j or problem.links.between(i, j) is not None)
        for i in names
        for j in names
    ]
    return np.array(allowed).reshape(len(names), len(names))


def _rule(host: Host, microbatches: int) -> Rule:
    """Return how warm-up counts follow from the schedule."""
    if len(host.weights):
        return Rule.PATHS
    if microbatches == 1:
        return Rule.ONCE
    return Rule.ALL_FIRST if host.steps.all_first else Rule.STEADY


def _path(steps: Steps, part: TableSlice) -> Ints:
    """Return ``Facts.path``."""
    path = np.zeros(len(Path), dtype=np.int64)
    path[Path.AHEAD], path[Path.FREE] = part.ahead, steps.free
    path[Path.CHUNKED] = part.chunks > 1
    known = steps.most == steps.inside and not (steps.all_first or steps.free)
    path[Path.TURNS] = known and not (steps.blocking or steps.folded or part.chunks > 1)
    return path


def label_facts(
    problem: Problem, table: CostTable, part: TableSlice, hosts: Sequence[Host]
) -> Facts:
    """Return the facts of one q of a table."""
    inside = [u for u, kind in enumerate(table.units) if table.body[kind]]
    body = table.units[inside[0] : inside[-1] + 1]
    units, rows = hosts[0].units, [host.rows for host in hosts]
    cost = np.concatenate([_unit_costs(host) for host in hosts])
    names, order = table.cluster_names, problem.pins.order
    steps = STEPS[table.schedule]
    layout = np.concatenate([own.layout for own in rows])
    tied = np.zeros((2, len(layout)), dtype=np.int64)
    if part.tied_ns is not None and len(layout):
        among = part.tied_ns[np.ix_(layout, layout)]
        tied[0], tied[1] = among.min(axis=1), among.min(axis=0)
    cuts = table.cuts[inside[0] : inside[-1]]
    dearer, slower, dearest = _crossing(part, cuts)
    return Facts(
        dearer=hosts[0].trips * dearer,
        slower=slower,
        dearest=dearest,
        cluster=np.repeat(np.arange(len(hosts)), [host.count for host in hosts]),
        layout=layout,
        tied=tied,
        stages=np.concatenate([own.max_stages for own in rows]),
        room=np.concatenate([host.usable - host.rows.fixed_bytes for host in hosts]),
        once=np.concatenate([own.sync_ns for own in rows]),
        unit=np.ascontiguousarray(cost),
        lead=_end_costs(cost, units.lead),
        trail=_end_costs(cost, units.trail),
        kinds=np.array(body, dtype=np.int64),
        cut=np.array([0, *cuts], dtype=np.int64),
        kappa=hosts[0].trips * part.transfer_ns,
        omega=part.occupancy_ns,
        follows=_follows(problem, names),
        opens=np.array([order is None or name == order[0] for name in names]),
        closes=np.array([order is None or name == order[-1] for name in names]),
        needed=sum(
            1 << j
            for j, host in enumerate(hosts)
            if not host.may_rest and (order is None or host.name in order)
        ),
        flights=part.chunks * part.microbatches - part.ahead,
        rule=int(_rule(hosts[0], part.microbatches)),
        steps=np.array([steps.inside, steps.across], dtype=np.int64),
        paces=np.array([steps.most, max(steps.most, steps.across)], dtype=np.int64),
        blocking=steps.blocking,
        weights=hosts[0].weights,
        path=_path(steps, part),
        first_end=np.concatenate([host.first_end for host in hosts]),
        uplink=np.array([host.uplink for host in hosts], dtype=np.int64),
    )
