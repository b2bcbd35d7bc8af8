"""The ``dfs`` solver: HeteroAuto, the search of H2 (section 4.3.3), in three steps.

1. *Depth-first search.* For every data-parallel degree d that divides the global batch
   (one sequence per micro-batch, so q = B / d) every type of accelerator, those with
   more memory first, is given a tensor degree and a recomputation policy; devices / (d
   t) stages follow from that.
2. *Layer sharding* (``shard``). Layers are spread so that all types take equally long,
   evenly within a type, and shifted to what memory has room for.
3. *Cost.* The least is kept: by our closed form, or by H2's own (section 4.3.2).

*Two stages.* The first one finds d. The second splits large clusters into groups of
128 devices (Table 8's setting), each a type of its own with a tensor degree not above
that of the group before it, and searches again with that d. So plans may be outside of
P4: the space is that of ``p4-falling-tp``.

Where this goes beyond H2: clusters (and groups, the last ones first) may stay unused,
and so may devices that do not fill a stage; partial assignments that cannot beat the
best plan are left. H2 has no context parallelism: cp is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from hetopt.formulations.program import PERIOD_SCALE
from hetopt.pricing import pipeline_times
from hetopt.problem.training import ANY
from hetopt.solvers.decisions.assembly import plan_of
from hetopt.solvers.heuristics.layer_sharding import Share, shard
from hetopt.solvers.heuristics.loads import Loads
from hetopt.solvers.heuristics.shared import ensure_free_units, solve_by
from hetopt.solvers.params import DfsParams
from hetopt.solvers.registry import SOLVERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.cost.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.problem.problem import Problem
    from hetopt.problem.training import Pins
    from hetopt.result import Result
    from hetopt.schedule.times import PipelineTimes
    from hetopt.solvers.heuristics.loads import Host
    from hetopt.solvers.heuristics.shared import Finds
    from hetopt.solvers.params import RaceParams


def h2_cost_ns(times: PipelineTimes) -> int:
    """Return H2's estimate of the iteration time (section 4.3.2, alpha = 1).

        max over stages i of  q T_i + T_i^update + sum over j != i of T_j

    It knows neither transfers nor windows of the period.
    """
    tau = times.round_trip_ns
    return sum(tau) + max(
        (times.microbatches - 1) * own + sync
        for own, sync in zip(tau, times.sync_ns, strict=True)
    )


def solve(
    problem: Problem,
    table: CostTable,
    params: RaceParams,
    *,
    time_limit_s: float | None,
    seed: int,
    cutoff: float | None = None,
) -> Result:
    """Find a good plan; see ``hetopt.solvers.race.solve.Solve``.

    Parameters
    ----------
    params
        ``DfsParams``, or any others for the defaults.

    Raises
    ------
    InputError
        If pins say how many units a stage or a cluster holds, which step 2 decides.
    """
    ensure_free_units("dfs", problem.pins)
    own = params if isinstance(params, DfsParams) else DfsParams()
    return solve_by(
        lambda finds, params, seed: _search(finds, own),
        problem,
        table,
        params,
        solver="dfs",
        time_limit_s=time_limit_s,
        seed=seed,
        cutoff=cutoff,
        principles=SOLVERS["dfs"].space,
    )


def _search(finds: Finds, params: DfsParams) -> None:
    """Find d with whole clusters, then search groups with that d."""
    best = _Best(finds, params)
    try:
        whole = _groups(finds, None)
        searches = [
            _Dfs(finds, Loads(finds.table, part, finds.chain), whole, best)
            for part in finds.table.slices
        ]
        # Good plans first, so that more is left out.
        for search in sorted(searches, key=lambda search: search.least((), 0)):
            search.run()
        groups = _groups(finds, params.group_devices)
        if best.microbatches is not None and len(groups) > len(whole):
            part = finds.table.at(best.microbatches)
            _Dfs(finds, Loads(finds.table, part, finds.chain), groups, best).run()
    finally:
        best.offer()


class _Best:
    """The best plan by the cost that the search minimises (step 3).

    Attributes
    ----------
    closed
        Whether the cost is the closed form.
    microbatches
        Of the best plan; None as long as there is none.
    """

    def __init__(self, finds: Finds, params: DfsParams) -> None:
        self._finds = finds
        self.closed = params.cost == "closed"
        self._cost = inf
        self._decision: Decision | None = None
        self.microbatches: int | None = None

    @property
    def limit(self) -> float:
        """Cost, in 1 / PERIOD_SCALE ticks, from which on nothing is of interest."""
        return self._finds.cutoff if self.closed else self._cost

    def consider(self, decision: Decision) -> None:
        """Take in a plan if it is the best."""
        finds = self._finds
        cost: float | None
        if self.closed:
            cost = finds.offer(decision)
        else:
            cost = finds.pricer.value(decision)
            if cost is not None:
                times = pipeline_times(plan_of(decision, finds.table, ""), finds.table)
                cost = float(PERIOD_SCALE * h2_cost_ns(times))
        if cost is not None and cost < self._cost:
            self._cost, self._decision = cost, decision
            self.microbatches = decision.microbatches

    def offer(self) -> None:
        """Offer the best plan by H2's cost; by the closed form all have been."""
        if not self.closed and self._decision is not None:
            self._finds.offer(self._decision)


def _groups(finds: Finds, most: int | None) -> list[tuple[int, int]]:
    """Return (cluster, devices) of every type, in pipeline order.

    Parameters
    ----------
    most
        Devices of a group; None for whole clusters. Clusters with a pinned number of
        stages stay whole.
    """
    table, pins = finds.table, finds.problem.pins
    names = table.cluster_names
    groups = []
    for j in _order(table, pins):
        devices, size = table.cluster_devices[j], most
        if size is None or pins.of(names[j]).stages != ANY:
            size = devices
        groups += [(j, size)] * (devices // size)
        if devices % size:
            groups.append((j, devices % size))
    return groups


def _order(table: CostTable, pins: Pins) -> list[int]:
    """Return the clusters by memory, the largest first, unless pins say otherwise."""
    names = table.cluster_names
    if pins.order is not None:
        return [names.index(name) for name in pins.order]
    order = sorted(range(len(names)), key=lambda j: (-table.usable_bytes[j], j))
    return _permitted([], order, pins, names) or order


def _permitted(
    begun: list[int], left: list[int], pins: Pins, names: Sequence[str]
) -> list[int] | None:
    """Return the first order that begins so and that pins permit; None if none."""
    if not left:
        return begun
    for j in left:
        if begun and (names[begun[-1]], names[j]) in pins.forbidden_next:
            continue
        rest = [other for other in left if other != j]
        found = _permitted([*begun, j], rest, pins, names)
        if found is not None:
            return found
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Option:
    """How a type may work: its strategy, and how many stages that makes.

    Attributes
    ----------
    unit_ns, least_ns
        Mean time of a body unit, and what bounds it from below.
    lost_ns
        What its stages together wait for each other in every period.
    """

    host: Host
    tp: int
    stages: int
    unit_ns: float
    least_ns: float
    lost_ns: float

    @property
    def speed(self) -> float:
        """Body units per ns of lambda that all stages hold together at most."""
        return self.stages / self.least_ns

    @property
    def lost(self) -> float:
        """Body units that they hold fewer, for what they wait in each period."""
        return self.lost_ns / self.least_ns


class _Dfs:
    """Steps 1 and 2 at one data-parallel degree.

    Parameters
    ----------
    groups
        (cluster, devices) in pipeline order.
    """

    def __init__(
        self,
        finds: Finds,
        loads: Loads,
        groups: Sequence[tuple[int, int]],
        best: _Best,
    ) -> None:
        self.finds, self.loads, self.groups, self.best = finds, loads, groups, best
        self.microbatches = loads.part.microbatches
        self.dp = finds.problem.training.global_batch // self.microbatches
        self.length, self.alike = finds.chain.length, finds.chain.is_uniform
        self.offers = [list(self._options(*group)) for group in groups]
        #: What the groups from each place on add at most to the speed, and lose at
        #: least; the least time of a unit on them.
        self.reach = [(0.0, 0.0, inf)]
        for offer in reversed(self.offers):
            able = [option for option in offer if option is not None]
            speed, lost, quickest = self.reach[0]
            if able:
                speed += max(option.speed for option in able)
                quickest = min(quickest, *(option.least_ns for option in able))
            if len(able) == len(offer):
                lost += min((option.lost for option in able), default=0.0)
            self.reach.insert(0, (speed, lost, quickest))

    def run(self) -> None:
        """Try everything that may be better than what is known."""
        self._descend([])

    def _options(self, j: int, devices: int) -> Iterator[_Option | None]:
        """Yield what a type may do, the fastest first, and that it rests."""
        own = self.loads.part.clusters[j]
        domain = self.finds.problem.pins.of(self.finds.table.cluster_names[j]).stages
        found = []
        for k, strategy in enumerate(own.strategies):
            if (strategy.dp, strategy.cp) != (self.dp, 1):
                continue
            room = devices // strategy.devices
            stages = max(
                (m for m in range(1, room + 1) if domain.permits(m)), default=0
            )
            if stages:
                wait = 0
                # H2's cost knows no transfers.
                if self.loads.waits and self.best.closed:
                    wait = self.loads.transfer_ns((j, k), (j, k), slowest=False)
                found.append(
                    _Option(
                        host=(j, k),
                        lost_ns=2 * (stages - 1) * wait if stages > 1 else 0,
                        tp=strategy.tp,
                        stages=stages,
                        unit_ns=max(1.0, self.loads.unit_ns((j, k))),
                        least_ns=self.loads.least_ns((j, k)),
                    )
                )
        yield from sorted(found, key=lambda option: -option.speed)
        if domain.permits(0):
            yield None

    def _descend(self, chosen: list[_Option | None]) -> None:
        """Try everything that begins so and may be better than what is known."""
        self.finds.check_time()
        depth = len(chosen)
        options = [option for option in chosen if option is not None]
        if sum(option.stages for option in options) > self.length:
            return
        if self.least(options, depth) >= self.best.limit:
            return
        if depth == len(self.groups):
            decision = self.sharded(options)
            if decision is not None:
                self.best.consider(decision)
            return
        sibling = depth and self.groups[depth - 1][0] == self.groups[depth][0]
        for option in self.offers[depth]:
            if not sibling or _may_follow(chosen[-1], option):
                self._descend([*chosen, option])

    def least(self, options: Sequence[_Option], depth: int) -> float:
        """Return a lower bound on the cost, groups from ``depth`` on working anyhow.

        Lambda is long enough for all units, and the fill that of the types with the
        quickest units, taking as many as lambda permits: a convex function of lambda,
        with a corner where one more type is full.
        """
        speed, lost, quickest = self.reach[depth]
        lost += sum(option.lost for option in options)
        pairs = sorted(
            [(option.least_ns, option.speed) for option in options]
            + ([(quickest, speed)] if speed else [])
        )
        total = sum(speed for _, speed in pairs)
        if not total:
            return inf
        period = max((self.length + lost) / total, pairs[0][0])
        left, fill = float(self.length), 0.0
        for unit_ns, more in pairs:
            taken = min(left, period * more)
            left, fill = left - taken, fill + taken * unit_ns
        best, speed, busy = self._cost(period, fill), 0.0, 0.0
        for unit_ns, more in pairs:
            speed, busy = speed + more, busy + more * unit_ns
            if speed and self.length / speed > period:
                corner = self.length / speed
                best = min(best, self._cost(corner, corner * busy))
        return best

    def _cost(self, period: float, fill: float) -> float:
        return PERIOD_SCALE * (fill + (self.microbatches - 1) * period)

    def sharded(self, options: Sequence[_Option]) -> Decision | None:
        """Return what step 2 makes of the types; None if nothing, or nothing better."""
        loads = self.loads
        hosts = [option.host for option in options for _ in range(option.stages)]
        pace = self.length / sum(option.speed for option in options)
        warmups = loads.warmups(hosts, pace)
        shares = []
        first = 0
        for option in options:
            end = first + option.stages
            both = [
                loads.ends_ns(option.host, first=True, last=False) * (first == 0),
                loads.ends_ns(option.host, first=False, last=True)
                * (end == len(hosts)),
            ]
            shares.append(
                Share(
                    unit_ns=option.unit_ns,
                    extra_ns=sum(both) if option.stages == 1 else max(both),
                    most=tuple(
                        loads.room(
                            option.host,
                            warmups[i],
                            first=i == 0,
                            last=i == len(hosts) - 1,
                        )
                        for i in range(first, end)
                    ),
                    # Later stages hold fewer micro-batches, but the last the head.
                    late=end < len(hosts),
                )
            )
            first = end
        held = shard(shares, self.length)
        if held is None:
            return None
        longest = max(
            share.length_ns(own) for share, own in zip(shares, held, strict=True)
        )
        fill = sum(share.unit_ns * own for share, own in zip(shares, held, strict=True))
        if self.alike and self._cost(longest, fill) >= self.best.limit:
            return None
        units = [
            count
            for share, own in zip(shares, held, strict=True)
            for count in share.split(own)
        ]
        return loads.decision(hosts, units)


def _may_follow(before: _Option | None, option: _Option | None) -> bool:
    """Whether a group may work so after another group of its cluster."""
    if before is None:
        return option is None
    return option is None or option.tp <= before.tp
