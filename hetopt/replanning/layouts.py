"""The devices of a plan's ranks, and the order of nodes in which least has to move."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment

from hetopt.export.job import parts_of
from hetopt.export.placing import place, place_several

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.plans.plan import Plan
    from hetopt.problem.cluster.nodes import Device, Node
    from hetopt.problem.problem import Problem
    from hetopt.replanning.holdings import Held, Layout, Spans, States


def layout_of(problem: Problem, plan: Plan, nodes: Sequence[Node]) -> Layout:
    """Return the device of every rank, as exporters place it.

    Parameters
    ----------
    nodes
        The problem's nodes, in its order.

    Raises
    ------
    InputError
        As ``place``.
    """
    if len(plan.pipelines) == 1:
        placement = place(problem, plan)
    else:
        parts = [own for own, _ in parts_of(problem, plan)]
        placement = place_several(problem, plan, parts)
    known = {node.host: node for node in nodes}
    layout: list[list[list[Device]]] = [
        [[] for _ in pipeline.stages] for pipeline in plan.pipelines
    ]
    for rank in placement.ranks:
        device = known[rank.host].device(rank.local_device)
        layout[rank.pipeline][rank.stage].append(device)
    return layout


def device_names(layout: Layout) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Return the name of the device of every rank, by pipeline and stage."""
    return tuple(
        tuple(tuple(device.name for device in own) for own in stages)
        for stages in layout
    )


def rearranged(
    nodes: Sequence[Node],
    needed: Mapping[Device, Held],
    held: Mapping[Device, Held],
    states: States,
) -> list[Node]:
    """Return the nodes in an order in which least has to move.

    Nodes of one cluster with equally many devices are permuted, so that as many bytes
    as possible are already where they are needed (an assignment problem).

    Parameters
    ----------
    needed
        What devices will hold if the nodes keep their order.
    held
        What devices hold now.
    """
    alike: dict[tuple[str, int], list[int]] = defaultdict(list)
    for number, node in enumerate(nodes):
        alike[node.cluster, len(node.devices)].append(number)
    found = list(nodes)
    for own in alike.values():
        kept = np.array(
            [
                [_kept(nodes[i], nodes[k], needed, held, states) for k in own]
                for i in own
            ]
        )
        # Among equally good orders prefer the present one.
        kept += np.eye(len(own))
        order = zip(*linear_sum_assignment(kept, maximize=True), strict=True)
        for i, k in order:
            found[own[i]] = nodes[own[k]]
    return found


def moved_to(layout: Layout, before: Sequence[Node], after: Sequence[Node]) -> Layout:
    """Return a layout with nodes ``before`` replaced by ``after``."""
    new = {
        node.device(number): other.device(number)
        for node, other in zip(before, after, strict=True)
        for number in range(len(node.devices))
    }
    return [[[new[device] for device in own] for own in stages] for stages in layout]


# Two nodes, and the slices and states of all devices.
def _kept(
    first: Node,
    other: Node,
    needed: Mapping[Device, Held],
    held: Mapping[Device, Held],
    states: States,
) -> float:
    """Return the bytes that one node will need and another node already has."""
    kept = 0
    for number in range(len(first.devices)):
        need, have = needed.get(first.device(number)), held.get(other.device(number))
        if need is None or have is None:
            continue
        for tensor in need.keys() & have.keys():
            kept += common(need[tensor], have[tensor]) * states.bytes_of(tensor)
    return float(kept)


def common(one: Spans, other: Spans) -> int:
    """Return how many positions two slices of a tensor have in common."""
    return sum(
        max(0, min(end, last) - max(begin, first))
        for begin, end in one
        for first, last in other
    )
