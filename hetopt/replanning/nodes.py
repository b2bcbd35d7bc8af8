"""The nodes before and after devices are lost or added."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hetopt.base.words import suggest
from hetopt.errors import InputError
from hetopt.export.labels import labels
from hetopt.export.placing import host_of
from hetopt.problem.cluster.cluster import host_fault
from hetopt.problem.cluster.nodes import Node

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from hetopt.problem.problem import Problem


#: Most digits of the number of a node or a device: no cluster is larger.
MOST_DIGITS = 9


def nodes_of(problem: Problem) -> list[Node]:
    """Return the nodes of all clusters; without hosts, with the names exporters use.

    Raises
    ------
    InputError
        Two nodes have one name.
    """
    spelled = labels(cluster.name for cluster in problem.clusters)
    nodes = [
        Node(
            cluster.name,
            host_of(cluster, number, spelled[cluster.name]),
            tuple(range(cluster.devices_of(number))),
        )
        for cluster in problem.clusters
        for number in range(cluster.nodes)
    ]
    for host, count in Counter(node.host for node in nodes).items():
        if count > 1:
            msg = (
                f"{host} is a node of two clusters, so it is ambiguous which one is "
                "lost: give each node a name of its own"
            )
            raise InputError(msg, field="clusters")
    return nodes


def changed(
    problem: Problem, lost: Iterable[str], added: Iterable[str]
) -> tuple[list[Node], list[Node]]:
    """Return the nodes of a problem before and after devices are lost and added.

    Raises
    ------
    InputError
        As ``without`` and ``with_more``; also if nothing changes or no node remains.
    """
    before = nodes_of(problem)
    after = without(before, lost)
    known = {node.host for node in before}
    after = with_more(problem, after, known, added)
    if not after:
        raise InputError("leaves no device", field="--lost")
    if after == before:
        msg = "nothing changes: name what is lost or added"
        raise InputError(msg, field="--lost")
    return before, after


def without(nodes: Sequence[Node], lost: Iterable[str]) -> list[Node]:
    """Return the remaining nodes and devices.

    Parameters
    ----------
    lost
        Each a cluster, a node as CLUSTER/NUMBER (from 0), CLUSTER/HOST or HOST, or one
        device of a node (``:INDEX`` after the node).

    Raises
    ------
    InputError
        There is no such node or device, or it is named twice.
    """
    left = list(nodes)
    for text in lost:
        hit, index = _find(nodes, text)
        for node in hit:
            place = next((k for k, own in enumerate(left) if own[:2] == node[:2]), None)
            if place is None:
                raise InputError(f"{node.host} is lost already", field=f"--lost {text}")
            kept = left[place].devices
            if index is None:
                del left[place]
                continue
            if index not in kept:
                msg = f"{node.host} has no device {index}, expected one of "
                msg += ", ".join(map(str, kept))
                raise InputError(msg, field=f"--lost {text}")
            kept = tuple(own for own in kept if own != index)
            left[place : place + 1] = [node._replace(devices=kept)] if kept else []
    return left


def with_more(
    problem: Problem,
    nodes: Sequence[Node],
    known: Collection[str],
    added: Iterable[str],
) -> list[Node]:
    """Return the nodes with added ones, each as large as its cluster's largest node.

    Parameters
    ----------
    known
        Names of the nodes before the change, including lost ones.
    added
        Each as CLUSTER/HOST.

    Raises
    ------
    InputError
        The problem has no such cluster, or a node of that name exists or is lost.
    """
    clusters = {cluster.name: cluster for cluster in problem.clusters}
    found = list(nodes)
    for text in added:
        name, slash, host = text.rpartition("/")
        field = f"--added {text}"
        if not slash:
            msg = "expected CLUSTER/HOST, the name of a node that joins the cluster"
            raise InputError(msg, field=field)
        if name not in clusters:
            msg = f"no cluster is named {name!r}{suggest(name, clusters)}, expected "
            msg += f"one of {', '.join(clusters)}: add others to the problem file"
            raise InputError(msg, field=field)
        if fault := host_fault(host):
            raise InputError(fault, field=field)
        if host in known or any(node.host == host for node in found):
            msg = f"a node {host} exists or was lost: choose another name"
            raise InputError(msg, field=field)
        every = tuple(range(clusters[name].devices_per_node))
        last = [k for k, node in enumerate(found) if node.cluster == name]
        found.insert(last[-1] + 1 if last else len(found), Node(name, host, every))
    return found


def _find(nodes: Sequence[Node], text: str) -> tuple[list[Node], int | None]:
    """Return the nodes that an entry of --lost names, and the device, if given."""
    hit = _named(nodes, text)
    if hit:
        return hit, None
    before, colon, after = text.rpartition(":")
    hit = _named(nodes, before)
    if colon and hit and _is_number(after):
        if len(hit) == 1:
            return hit, int(after)
        msg = f"{before} is a whole cluster, expected a node before the device"
        raise InputError(msg, field=f"--lost {text}")
    known = [node.host for node in nodes]
    msg = f"no such node{suggest(before or text, known)}, expected CLUSTER/NUMBER or "
    msg += "HOST, and :INDEX for one of its devices"
    raise InputError(msg, field=f"--lost {text}")


def _named(nodes: Sequence[Node], text: str) -> list[Node]:
    """Return the node of this name, or the nodes of a cluster; empty if unknown."""
    for node in nodes:
        if text == node.host:
            return [node]
    cluster, slash, rest = text.rpartition("/")
    own = [node for node in nodes if node.cluster == (cluster if slash else text)]
    if not slash:
        return own
    if _is_number(rest) and int(rest) < len(own):
        return [own[int(rest)]]
    return [node for node in own if node.host == rest]


def _is_number(text: str) -> bool:
    """Whether a text can be the number of a node or a device."""
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
