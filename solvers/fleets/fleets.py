"""All fleets that may be rented, with their prices and bounds on their times.

A *fleet* is a number of nodes of each cluster, from none to all of them. Its time is
that of the best plan that needs no more nodes. A larger fleet never takes longer, so
a bound on one holds for all fleets that it contains.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.errors import InputError
from hetopt.problem.cluster.packing import packed
from hetopt.problem.digest import problem_digest
from hetopt.solvers.race.device_time import least_times_s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem

    Floats = NDArray[np.float64]

#: Most fleets of one problem, as they are all listed.
MOST_FLEETS = 1_000_000


class Fleets:
    """Every fleet of a problem but the empty one; F of them, J clusters.

    Attributes
    ----------
    nodes
        Nodes of each cluster; ascending, the last cluster fastest; shape (F, J).
    price
        Per hour; shape (F,).
    bound_s
        Lower bounds on their times, valid for the simulated time and the closed form;
        ``raise_to`` raises them; shape (F,).

    Raises
    ------
    InputError
        A cluster has no price, or there are more than ``MOST_FLEETS``.
    """

    def __init__(self, problem: Problem, table: CostTable) -> None:
        self._problem, self._table = problem, table
        clusters = problem.clusters
        count = math.prod(each.nodes + 1 for each in clusters) - 1
        if count > MOST_FLEETS:
            msg = (
                f"{count:.3g} choices of nodes, expected at most {MOST_FLEETS:,}: "
                "leave clusters out, or give them fewer nodes"
            )
            raise InputError(msg, field="clusters")
        axes = [np.arange(each.nodes + 1) for each in clusters]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        self.nodes: NDArray[np.int64] = grid.reshape(-1, len(clusters))[1:]
        self.price: Floats = self.nodes @ np.array([_price(each) for each in clusters])
        sizes = np.array([each.devices_per_node for each in clusters])
        self.bound_s: Floats = least_times_s(table, self.nodes * sizes)

    def named(self, index: int) -> dict[str, int]:
        """Return the nodes of one fleet by cluster, without clusters that have none."""
        names = self._table.cluster_names
        nodes = zip(names, self.nodes[index].tolist(), strict=True)
        return {name: count for name, count in nodes if count}

    def price_of(self, nodes: Mapping[str, int]) -> float:
        """Return the price of so many nodes by cluster, per hour."""
        counts = [nodes.get(name, 0) for name in self._table.cluster_names]
        return float(counts @ np.array([_price(x) for x in self._problem.clusters]))

    def raise_to(self, index: int, bound_s: float) -> None:
        """Raise the bounds of a fleet, and of all fleets that it contains."""
        inside = (self.nodes <= self.nodes[index]).all(axis=1)
        self.bound_s[inside] = np.maximum(self.bound_s[inside], bound_s)

    def rented(self, index: int) -> tuple[Problem, CostTable]:
        """Return the problem and the table of one fleet.

        A problem cannot have a cluster without nodes: one that is not rented keeps one
        node, but no strategy.
        """
        counts = self.nodes[index].tolist()
        problem = replace(
            self._problem,
            clusters=tuple(
                # Hosts are dropped: they name every node, and change no cost.
                replace(each, nodes=max(1, count), hosts=None)
                for each, count in zip(self._problem.clusters, counts, strict=True)
            ),
        )
        slices = (
            replace(
                part,
                clusters=tuple(
                    _rented(own, each, count)
                    for own, each, count in zip(
                        part.clusters, self._problem.clusters, counts, strict=True
                    )
                ),
            )
            for part in self._table.slices
        )
        table = replace(
            self._table,
            problem_digest=problem_digest(problem),
            cluster_devices=tuple(each.devices for each in problem.clusters),
            slices=tuple(
                part for part in slices if any(own.strategies for own in part.clusters)
            ),
            per_unit=None,
        )
        return problem, table


def _price(cluster: Cluster) -> float:
    if cluster.price_per_hour is None:
        msg = "is missing: choosing nodes to rent needs the price of every cluster"
        raise InputError(msg, field=f"clusters.{cluster.name}.price_per_hour")
    return cluster.price_per_hour


def _rented(own: ClusterTable, cluster: Cluster, nodes: int) -> ClusterTable:
    """Return a cluster's table for only ``nodes`` of its equal nodes."""
    # A cluster cannot be without nodes.
    there = replace(cluster, nodes=max(1, nodes), hosts=None)
    fits = [packed(there, each.devices, each.inside) for each in own.strategies]
    counts = [each.stages if each and nodes else 0 for each in fits]
    most = np.array(counts, dtype=np.int64)
    kept = most > 0
    fields: dict[str, Any] = {
        name: column[kept]
        for name, column in own.columns().items()
        if name != "max_stages"
    }
    strategies = zip(own.strategies, kept, strict=True)
    return type(own)(
        **fields,
        strategies=tuple(strategy for strategy, stays in strategies if stays),
        max_stages=most[kept],
    )
