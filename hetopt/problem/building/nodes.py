"""The nodes of a cluster, from their number or from a list of their sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hetopt.base.record import Fault

if TYPE_CHECKING:
    from hetopt.problem.document.document import FieldPath
    from hetopt.problem.schema.problem import ClusterSpec


class Nodes(NamedTuple):
    """The nodes of a cluster.

    Attributes
    ----------
    largest
        Devices of the largest node.
    unequal
        Devices of each node; None if all nodes have the same number.
    """

    number: int
    largest: int
    unequal: tuple[int, ...] | None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The different numbers of devices that nodes have."""
        return (self.largest,) if self.unequal is None else tuple(set(self.unequal))


def nodes_of(spec: ClusterSpec, path: FieldPath) -> Nodes:
    """Return the nodes: equal ones by their number, or a list of their sizes.

    Raises
    ------
    Fault
        Both forms or half of one is given, or a price of a node of unequal nodes.
    """
    each = spec.devices_per_node
    if isinstance(spec.nodes, int):
        if each is None:
            msg = "is missing, expected the number of devices of a node"
            raise Fault(msg, *path, "devices_per_node")
        return Nodes(spec.nodes, each, None)
    if each is not None:
        msg = (
            f"is {each}, but nodes lists the devices of each node: leave one of the "
            "two out"
        )
        raise Fault(msg, *path, "devices_per_node")
    sizes = spec.nodes
    if len(set(sizes)) == 1:
        return Nodes(len(sizes), sizes[0], None)
    if spec.price_per_hour is not None:
        msg = (
            "is the price of one of several equal nodes, but nodes lists unequal ones: "
            "give the nodes of each size a cluster of their own, or leave it out"
        )
        raise Fault(msg, *path, "price_per_hour")
    return Nodes(len(sizes), max(sizes), sizes)
