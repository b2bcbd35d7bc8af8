"""One problem of the tree, with its table and how its plans are reported.

A problem is edited in three ways. It gets another schedule; it keeps some nodes, as the
fleet that is rented; or it becomes the problem of one of several pipelines. Plans on
some of the nodes are plans of the problem with all of them, and are reported as such.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.cost.build import build_table
from hetopt.cost.device_work import least_seconds_of_lengths
from hetopt.cost.divided import part, sources_by_length
from hetopt.cost.table_file.file import table_digest
from hetopt.problem.cluster.packing import packed
from hetopt.problem.digest import problem_digest
from hetopt.problem.model.kinds import END_KINDS
from hetopt.solvers.race.device_time import least_times_s
from hetopt.solvers.search.devices import Devices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from hetopt.cost.sources.source import LatencySource
    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem
    from hetopt.results.priced_plan import PricedPlan

#: Bounds in floating point are lowered by this share of themselves.
_ROUNDING = 1e-12


class Space:
    """A problem to search.

    Attributes
    ----------
    problem
        What a solver searches; a cluster of which nothing is rented keeps one node in
        it, as clusters cannot be without, but has no strategies.
    nodes
        Nodes of each cluster that are rented; None: all.
    whole
        The same with all nodes, for which plans are reported; itself if it has all.
    devices
        All nodes, under any schedule.

    Parameters
    ----------
    table
        Returns its table, called when that is first needed.
    """

    def __init__(
        self,
        problem: Problem,
        table: Callable[[], CostTable],
        *,
        whole: Space | None = None,
        nodes: tuple[int, ...] | None = None,
        devices: Devices | None = None,
    ) -> None:
        self.problem, self.nodes = problem, nodes
        self.whole = whole or self
        if devices is None:
            devices = Devices(problem) if whole is None else whole.devices
        self.devices: Devices = devices
        self._make_table = table

    @classmethod
    def of(cls, problem: Problem, table: CostTable) -> Space:
        """Return a problem with all its nodes."""
        return cls(problem, lambda: table)

    @cached_property
    def table(self) -> CostTable:
        """The latency table.

        Raises
        ------
        InputError
            There is none for this problem.
        """
        return self._make_table()

    @cached_property
    def own(self) -> Problem:
        """The problem without clusters of which nothing is rented."""
        if self.nodes is None:
            return self.problem
        there = zip(self.problem.clusters, self.nodes, strict=True)
        clusters = tuple(cluster for cluster, count in there if count)
        return replace(self.problem, clusters=clusters)

    @cached_property
    def asked(self) -> tuple[Problem, CostTable]:
        """The problem that a solver is asked, and its table.

        Sequences of several lengths divide all nodes there are, so that it has those
        that are rented only.
        """
        if self.problem.training.lengths is None or self.nodes is None:
            return self.problem, self.table
        return self.own, build_table(self.own, whole=self.whole.problem)

    @cached_property
    def units(self) -> int:
        """Units of the model's body."""
        return sum(kind not in END_KINDS for kind in self.problem.model.units)

    @cached_property
    def _mixed_s(self) -> float:
        """Device time of all nodes if sequences have several lengths."""
        sources = sources_by_length(self.problem)
        return least_seconds_of_lengths(self.problem, sources)

    @cached_property
    def _shared_rates(self) -> NDArray[np.float64]:
        """Most units and sequences per second of each cluster's nodes; shape (J,)."""
        least: NDArray[np.float64] = self.devices.seconds.min(axis=1)
        return self.sizes / least

    @cached_property
    def sizes(self) -> NDArray[np.float64]:
        """Devices of each cluster's node, on average; shape (J,)."""
        return np.array([each.devices / each.nodes for each in self.problem.clusters])

    @property
    def counts(self) -> NDArray[np.int64]:
        """Nodes of each cluster; shape (J,)."""
        own = [each.nodes for each in self.problem.clusters]
        return np.array(own if self.nodes is None else self.nodes)

    def least_s(
        self, nodes: NDArray[np.int64], *, divided: bool
    ) -> NDArray[np.float64]:
        """Return the device time of plans on some nodes, under any schedule.

        Parameters
        ----------
        nodes
            Nodes of each of J clusters, for F choices; shape (F, J).
        divided
            Whether nodes may be divided among several pipelines. Then stages on half
            nodes count, which the table does not have, and micro-batches that divide a
            part of the batch.

        Returns
        -------
        Seconds; infinite where there is no plan; shape (F,).
        """
        if self.problem.training.lengths is not None:
            return np.full(len(nodes), self.whole._mixed_s)
        if not divided:
            return least_times_s(self.whole.table, nodes * self.whole.sizes)
        work = self.problem.training.global_batch * self.units
        with np.errstate(divide="ignore"):
            taken: NDArray[np.float64] = work / (nodes @ self.whole._shared_rates)
        return taken * (1 - _ROUNDING)

    def reported(self, priced: PricedPlan) -> PricedPlan:
        """Return a plan of this problem as one of the problem with all nodes."""
        whole = self.whole
        if whole is self:
            return priced
        plan = replace(
            priced.plan,
            problem_digest=whole.table.problem_digest,
            table_digest=table_digest(whole.table),
        )
        return replace(priced, plan=plan)

    def rented(self, nodes: Sequence[int]) -> Space:
        """Return the problem on some of its nodes, all of which it has."""
        counts = tuple(nodes)
        problem = replace(
            self.problem,
            clusters=tuple(
                each.with_nodes(max(1, count))
                for each, count in zip(self.problem.clusters, counts, strict=True)
            ),
        )
        return Space(
            problem,
            lambda: _rented(self.table, self.problem, problem, counts),
            whole=self,
            nodes=counts,
        )

    def narrowed(self, problem: Problem, table: CostTable) -> Space:
        """Return the problem with fewer strategies, or with an order of clusters."""
        return Space(problem, lambda: table, whole=self.whole, nodes=self.nodes)

    def part(
        self,
        division: Sequence[Mapping[str, tuple[int, ...]]],
        number: int,
        batch: int,
        source: LatencySource,
    ) -> Space:
        """Return the problem of one of several pipelines (``hetopt.cost.divided``).

        Its plans are not reported: they are joined with those of the other pipelines.
        """
        own = part(self.own, division, number, batch, source)
        return Space.of(own.problem, own.table)


def _rented(
    table: CostTable, whole: Problem, problem: Problem, counts: Sequence[int]
) -> CostTable:
    """Return the table of a problem on some of its nodes."""
    slices = (
        replace(
            part,
            clusters=tuple(
                _on_nodes(own, each, count)
                for own, each, count in zip(
                    part.clusters, whole.clusters, counts, strict=True
                )
            ),
        )
        for part in table.slices
    )
    return replace(
        table,
        problem_digest=problem_digest(problem),
        cluster_devices=tuple(each.devices for each in problem.clusters),
        slices=tuple(
            part for part in slices if any(own.strategies for own in part.clusters)
        ),
        per_unit=None,
    )


def _on_nodes(own: ClusterTable, cluster: Cluster, nodes: int) -> ClusterTable:
    """Return a cluster's table for only ``nodes`` of its equal nodes."""
    # A cluster cannot be without nodes.
    there = cluster.with_nodes(max(1, nodes))
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
