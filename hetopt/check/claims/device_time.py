"""The least time in which devices can do the work: no plan on them takes less."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.device_work import least_device_seconds, least_seconds_of_lengths
from hetopt.cost.divided import sources_by_length
from hetopt.problem.model.kinds import END_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

#: Sums of floating-point times are off by less than this share of them.
_ROUNDING = 1e-9


class DeviceTime:
    """Device time of a problem's nodes, whatever the schedule; J clusters.

    Attributes
    ----------
    batch, units
        Sequences of an iteration, and units of the model's body.

    Parameters
    ----------
    divided
        Whether nodes may be divided among several pipelines. Then stages on half nodes
        and micro-batches that divide a part of the batch count, too.
    """

    def __init__(self, problem: Problem, table: CostTable, *, divided: bool) -> None:
        self._problem, self._table, self._divided = problem, table, divided
        self.batch = problem.training.global_batch
        self.units = sum(kind not in END_KINDS for kind in problem.model.units)

    @cached_property
    def mixed_s(self) -> float | None:
        """The device time of all nodes if sequences have several lengths; else None."""
        problem = self._problem
        if problem.training.lengths is None:
            return None
        return least_seconds_of_lengths(problem, sources_by_length(problem))

    def of_all(self) -> float:
        """Return the device time of all nodes, in seconds."""
        counts = [each.nodes for each in self._problem.clusters]
        return float(self.of_nodes(np.array([counts]))[0])

    def of_nodes(self, nodes: Ints) -> Floats:
        """Return the device time of some nodes of each cluster.

        Parameters
        ----------
        nodes
            For F choices; shape (F, J).

        Returns
        -------
        Seconds; infinite where no device has a strategy; shape (F,).
        """
        if self.mixed_s is not None:
            return np.full(len(nodes), self.mixed_s)
        if self._divided:
            rates = [
                each.devices / each.nodes / work.min()
                for each, work in zip(self._problem.clusters, self._work, strict=True)
            ]
            return self._taken(self.batch * self.units, nodes @ np.array(rates))
        table, clusters = self._table, self._problem.clusters
        body = sum(table.body[kind] for kind in table.units)
        kinds = sorted({kind for kind in table.units if table.body[kind]})
        if table.pairs is not None:
            # Schedules that do not fold may have the units of a pair on two clusters.
            first = len(table.kinds) - len(table.pairs)
            body *= 2
            kinds = [unit for kind in kinds for unit in table.pairs[kind - first]]
        least = np.full(len(nodes), np.inf)
        for part in table.slices:
            pairs = zip(part.clusters, clusters, strict=True)
            rates = [_rate(own, cluster, kinds) for own, cluster in pairs]
            # Every stage runs each of its units once per pass. With v chunks of the
            # model, a unit of the table is one in each chunk.
            work = part.microbatches * part.chunks * body
            least = np.minimum(least, self._taken(work, nodes @ np.array(rates)))
        return least

    def of_part(self, own: Mapping[str, tuple[int, ...]]) -> list[float]:
        """Return the device time of a pipeline by its sequences, from 1 to all.

        Parameters
        ----------
        own
            Devices of each of its nodes, by cluster.
        """
        per_second = np.zeros(self.batch)
        for cluster, work in zip(self._problem.clusters, self._work, strict=True):
            if cluster.name in own:
                per_second += sum(own[cluster.name]) / work
        sizes = np.arange(1, self.batch + 1)
        found: list[float] = self._taken(sizes * self.units, per_second).tolist()
        return found

    @cached_property
    def _work(self) -> Floats:
        """The least device seconds of a unit and a sequence on all nodes; (J, B).

        On some of the nodes it is no less.
        """
        return least_device_seconds(self._problem)

    @staticmethod
    def _taken(work: Floats | Ints | int, per_second: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            taken: Floats = work / per_second * (1 - _ROUNDING)
        return taken


def _rate(own: ClusterTable, cluster: Cluster, kinds: list[int]) -> float:
    """Return the most units per second of a node, by its best strategy."""
    if not own.strategies:
        return 0.0
    least_ns = min(
        int(own.forward_ns[k, kind] + own.backward_ns[k, kind]) * strategy.devices
        for k, strategy in enumerate(own.strategies)
        for kind in kinds
    )
    return 1e9 / max(least_ns, 1) * cluster.devices / cluster.nodes
