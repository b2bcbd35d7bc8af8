"""The ``metis`` solver: device groups over orders of types, strategies stage by stage.

After Metis (USENIX ATC 2024) as HetAuto section 7.2 describes it: stages may differ in
devices and in (dp, tp), layers follow the computing capacity of each stage, and there
is no context parallelism (cp is 1). Defined here as

* *all of* the micro-batch counts q, the ordered subsets of clusters, and the stages m_j
  of each, fewer stages in all first;
* *device groups* (``device_groups``): m_j groups share the devices of cluster j, their
  sizes being two neighbouring ones among those its strategies have, larger ones first
  (only those that divide a node or are whole nodes, and no cluster of unequal nodes);
* *strategies*: every stage starts with its first one by (recomputation, tp, dp). As
  long as memory holds fewer layers of some stage than its capacity would take, the
  stage that lacks most takes its next strategy; each step is a plan if its layers fit;
* *layers* (``spread``): one by one, to the stage that is the shortest with one more
  among those with room. So layers that do not fit on a stage go to the others.

The search is deterministic. On large problems the enumeration does not end in practice,
as HetAuto reports of Metis; a user who interrupts it gets the best plan so far. Plans
that a lower bound excludes are skipped. A cluster's stages may have different
strategies: the space is that of ``p4``.
"""

from __future__ import annotations

import heapq
from functools import lru_cache
from itertools import combinations, pairwise, permutations
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.problem.cluster.filling import fills_by_sum
from hetopt.problem.training.choices import recompute_level
from hetopt.solvers.heuristics.free_units import ensure_free_units
from hetopt.solvers.heuristics.loads import Loads
from hetopt.solvers.unproven.finds import solve_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.cost.table.slice import TableSlice
    from hetopt.results.result import Result
    from hetopt.solvers.heuristics.loads import Host
    from hetopt.solvers.request import Request
    from hetopt.solvers.unproven.finds import Finds


def solve(request: Request) -> Result:
    """Find a good plan; see ``hetopt.solvers.request.Solve``.

    Raises
    ------
    InputError
        If pins fix how many units a stage or a cluster holds, or nodes are unequal.
    """
    ensure_free_units("metis", request.problem.pins)
    for j, cluster in enumerate(request.problem.clusters):
        if cluster.unequal is not None:
            msg = (
                "lists unequal nodes, which solver metis does not support: use dp or "
                "dfs"
            )
            raise InputError(msg, field=f"clusters.{j}.nodes")
    return solve_by(_search, request, solver="metis", context=False)


def device_groups(devices: int, sizes: Sequence[int], stages: int) -> tuple[int, ...]:
    """Return the devices of each stage, larger ones first; empty if there are too few.

    All stages get the largest size for which there are enough devices; as many of them
    as the remaining devices permit get the next size instead.

    Parameters
    ----------
    sizes
        Sizes that the cluster's strategies have, ascending.
    """
    able = [size for size in sizes if size * stages <= devices]
    if not able:
        return ()
    size, more = able[-1], 0
    if len(able) < len(sizes):
        larger = sizes[len(able)]
        more = (devices - size * stages) // (larger - size)
        return (larger,) * more + (size,) * (stages - more)
    return (size,) * stages


def spread(
    unit_ns: Sequence[float],
    extra_ns: Sequence[float],
    rooms: Sequence[int],
    length: int,
) -> list[int] | None:
    """Return the body units of each stage; None if memory has no room for all.

    Parameters
    ----------
    unit_ns, extra_ns
        Time of a unit on each stage, and of embedding and head on it.
    rooms
        Most units of each stage.
    """
    stages = len(rooms)
    if min(rooms) < 1 or not stages <= length <= sum(rooms):
        return None
    units = [1] * stages
    waiting = [(extra_ns[i] + 2 * unit_ns[i], i) for i in range(stages) if rooms[i] > 1]
    heapq.heapify(waiting)
    for _ in range(length - stages):
        after, i = heapq.heappop(waiting)
        units[i] += 1
        if units[i] < rooms[i]:
            heapq.heappush(waiting, (after + unit_ns[i], i))
    return units


def _search(finds: Finds) -> None:
    table = finds.table
    metis = [_Metis(finds, part) for part in table.slices]
    for stages in finds.problem.stage_counts:
        if stages <= finds.chain.length:
            for one in metis:
                one.run(stages)


class _Metis:
    """All plans of the definition at one micro-batch count."""

    def __init__(self, finds: Finds, part: TableSlice) -> None:
        self.finds = finds
        self.loads = Loads(finds.table, part, finds.chain)
        self.length = finds.chain.length
        #: The strategies of each cluster, in order, by the devices of a stage.
        self.options: list[dict[int, tuple[Host, ...]]] = []
        for j, own in enumerate(part.clusters):
            rows = sorted(
                (k for k, strategy in enumerate(own.strategies) if strategy.cp == 1),
                key=lambda k: (
                    recompute_level(own.strategies[k].recompute),
                    own.strategies[k].tp,
                    own.strategies[k].dp,
                ),
            )
            by_size: dict[int, tuple[Host, ...]] = {}
            cluster = finds.problem.clusters[j]
            for k in rows:
                size = own.strategies[k].devices
                if not fills_by_sum(cluster, [size]):
                    continue
                by_size[size] = (*by_size.get(size, ()), (j, k))
            self.options.append(by_size)
        self.groups = lru_cache(maxsize=None)(self._groups)
        self.speed = lru_cache(maxsize=None)(self._speed)
        self.quickest = min(
            (
                self.loads.least_ns(host)
                for by_size in self.options
                for hosts in by_size.values()
                for host in hosts
            ),
            default=0.0,
        )

    def run(self, stages: int) -> None:
        """Try all plans with this number of stages."""
        clusters = [j for j, by_size in enumerate(self.options) if by_size]
        for used in range(1, min(stages, len(clusters)) + 1):
            for subset in combinations(clusters, used):
                if not any(self._orders(subset)):
                    continue
                for counts in _compositions(stages, used):
                    self.finds.check_time()
                    if not self._may_help(subset, counts):
                        continue
                    hosted = dict(zip(subset, counts, strict=True))
                    # Not stored: ten clusters have millions of orders.
                    for order in self._orders(subset):
                        self.finds.check_time()
                        self._walk([(j, hosted[j]) for j in order])

    def _orders(self, subset: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Yield the orders of these clusters that the pins permit."""
        permitted = self.finds.pricer.permitted
        if any(
            not own.permits(0)
            for j, own in enumerate(permitted.stages)
            if j not in subset
        ):
            return
        for order in permutations(subset):
            if permitted.order in (None, order) and permitted.apart.isdisjoint(
                pairwise(order)
            ):
                yield order

    def _groups(self, j: int, stages: int) -> tuple[int, ...]:
        """Return the devices of each stage on a cluster; empty if impossible."""
        if not self.finds.pricer.permitted.stages[j].permits(stages):
            return ()
        sizes = sorted(self.options[j])
        return device_groups(self.finds.table.cluster_devices[j], sizes, stages)

    def _speed(self, j: int, stages: int) -> float:
        """Return the most units per ns of a cluster with this number of stages."""
        return sum(
            max(1 / self.loads.least_ns(host) for host in self.options[j][size])
            for size in self.groups(j, stages)
        )

    def _unit_ns(self, host: Host) -> float:
        return max(1.0, self.loads.unit_ns(host))

    def _may_help(self, subset: Sequence[int], counts: Sequence[int]) -> bool:
        """Whether a lower bound leaves room for a better plan."""
        pairs = list(zip(subset, counts, strict=True))
        if not all(self.groups(j, stages) for j, stages in pairs):
            return False
        return self._may_be(sum(self.speed(j, stages) for j, stages in pairs))

    def _may_be(self, speed: float) -> bool:
        """Whether stages of at most ``speed`` units per ns may give a better plan."""
        more = self.loads.part.microbatches - 1
        bound = self.length * (self.quickest + more / speed)
        return bound * PERIOD_SCALE <= self.finds.cutoff

    def _walk(self, hosted: Sequence[tuple[int, int]]) -> None:
        """Offer the plans of one row of device groups.

        Parameters
        ----------
        hosted
            Clusters in pipeline order, with the stages of each.
        """
        choices = [
            self.options[j][size] for j, m in hosted for size in self.groups(j, m)
        ]
        last = len(choices) - 1
        taken = [0] * len(choices)
        while True:
            hosts = [own[k] for own, k in zip(choices, taken, strict=True)]
            unit_ns = [self._unit_ns(host) for host in hosts]
            speed = sum(1 / own for own in unit_ns)
            pace = self.length / speed
            warmups = self.loads.warmups(hosts, pace)
            rooms = [
                self.loads.room(host, warmup, first=i == 0, last=i == last)
                for i, (host, warmup) in enumerate(zip(hosts, warmups, strict=True))
            ]
            extra_ns = [
                self.loads.ends_ns(host, first=i == 0, last=i == last)
                for i, host in enumerate(hosts)
            ]
            units = None
            if self._may_be(sum(1 / self.loads.least_ns(host) for host in hosts)):
                units = spread(unit_ns, extra_ns, rooms, self.length)
            if units is not None and self._is_quick(unit_ns, extra_ns, units):
                self.finds.offer(self.loads.decision(hosts, units))
            short = [
                (room - pace / own, i)
                for i, (room, own) in enumerate(zip(rooms, unit_ns, strict=True))
                if room < max(1.0, pace / own) and taken[i] + 1 < len(choices[i])
            ]
            if not short:
                return
            taken[min(short)[1]] += 1

    def _is_quick(
        self, unit_ns: Sequence[float], extra_ns: Sequence[float], units: Sequence[int]
    ) -> bool:
        """Whether stages with these times and units may make a better plan."""
        if not self.finds.chain.is_uniform:
            return True
        tau = [
            extra + own * count
            for extra, own, count in zip(extra_ns, unit_ns, units, strict=True)
        ]
        bound = sum(tau) + (self.loads.part.microbatches - 1) * max(tau)
        return bound * PERIOD_SCALE <= self.finds.cutoff + PERIOD_SCALE


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write ``total`` as a sum of ``parts`` counts >= 1."""
    for cuts in combinations(range(1, total), parts - 1):
        yield tuple(b - a for a, b in pairwise((0, *cuts, total)))
