"""The depth-first search of ``dfs``: strategies cluster by cluster."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.solvers.heuristics.layer_sharding import Share, shard
from hetopt.solvers.heuristics.loads import Loads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.formulations.decision import Decision
    from hetopt.schedule.times import PipelineTimes
    from hetopt.solvers.heuristics.loads import Host
    from hetopt.solvers.params import DfsParams
    from hetopt.solvers.unproven.finds import Finds


def h2_cost_ns(times: PipelineTimes) -> int:
    """Return H2's estimate of the iteration time (section 4.3.2, alpha = 1).

        max over stages i of  q T_i + T_i^update + sum over j != i of T_j

    It ignores transfers, and windows of several stages.
    """
    tau = times.round_trip_ns
    return sum(tau) + max(
        (times.microbatches - 1) * own + sync
        for own, sync in zip(tau, times.sync_ns, strict=True)
    )


class Best:
    """The best plan by the cost that the search minimises (step 3).

    Attributes
    ----------
    closed
        Whether the cost is the closed form.
    microbatches
        q of the best plan; None as long as there is none.
    """

    def __init__(self, finds: Finds, params: DfsParams) -> None:
        self._finds = finds
        self.closed = params.cost == "closed"
        self._cost = inf
        self._decision: Decision | None = None
        self.microbatches: int | None = None

    @property
    def limit(self) -> float:
        """Cost in 1 / PERIOD_SCALE ticks from which on assignments are pruned."""
        return self._finds.cutoff if self.closed else self._cost

    def consider(self, decision: Decision) -> None:
        """Keep a plan if it is the best."""
        finds = self._finds
        cost: float | None
        if self.closed:
            cost = finds.offer(decision)
        else:
            cost = finds.pricer.value(decision)
            if cost is not None:
                cost = float(PERIOD_SCALE * h2_cost_ns(finds.pricer.times(decision)))
        if cost is not None and cost < self._cost:
            self._cost, self._decision = cost, decision
            self.microbatches = decision.microbatches

    def offer(self) -> None:
        """Offer the best plan by H2's cost; with the closed form all were offered."""
        if not self.closed and self._decision is not None:
            self._finds.offer(self._decision)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A choice for one type: its strategy, and the number of its stages.

    Attributes
    ----------
    unit_ns, least_ns
        Mean time of a body unit, and a lower bound on it (``Loads``).
    lost_ns
        Time in each period that its stages together wait for each other.
    """

    host: Host
    tp: int
    stages: int
    unit_ns: float
    least_ns: float
    lost_ns: float

    @property
    def speed(self) -> float:
        """Most body units that all stages hold together, per ns of lambda."""
        return self.stages / self.least_ns

    @property
    def lost(self) -> float:
        """Body units that they hold less because of the waits in each period."""
        return self.lost_ns / self.least_ns


class Assignments:
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
        best: Best,
    ) -> None:
        self.finds, self.loads, self.groups, self.best = finds, loads, groups, best
        self.microbatches = loads.part.microbatches
        self.dp = finds.problem.training.global_batch // self.microbatches
        self.length, self.alike = finds.chain.length, finds.chain.is_uniform
        self.offers = [list(self._options(*group)) for group in groups]
        #: For the groups from each place on: most speed that they add, least units that
        #: they lose, and the least time of a unit on them.
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
        """Try all assignments that may be better than the best plan."""
        self._descend([])

    def _options(self, j: int, devices: int) -> Iterator[Option | None]:
        """Yield a type's options, the fastest first, then None if it may be unused."""
        own = self.loads.part.clusters[j]
        domain = self.finds.pricer.permitted.stages[j]
        found = []
        for k, strategy in enumerate(own.strategies):
            if (strategy.dp, strategy.cp) != (self.dp, 1):
                continue
            room = min(devices // strategy.devices, int(own.max_stages[k]))
            stages = max(
                (m for m in range(1, room + 1) if domain.permits(m)), default=0
            )
            if stages:
                wait = 0
                # H2's cost ignores transfers.
                if self.loads.waits and self.best.closed:
                    wait = self.loads.transfer_ns((j, k), (j, k), slowest=False)
                found.append(
                    Option(
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

    def _descend(self, chosen: list[Option | None]) -> None:
        """Try all assignments that begin with ``chosen`` and may beat the best plan."""
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

    def least(self, options: Sequence[Option], depth: int) -> float:
        """Return a lower bound on the cost, for any use of the groups from ``depth``.

        Lambda has to be long enough for all units. For the fill, the types with the
        quickest units take as many as lambda permits. The cost is a convex function of
        lambda, with corners where the quickest types, all full, hold all units.
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

    def sharded(self, options: Sequence[Option]) -> Decision | None:
        """Return the plan of step 2; None if layers do not fit or it is not better."""
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
                    # Later stages hold fewer micro-batches, but the last has the head.
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


def _may_follow(before: Option | None, option: Option | None) -> bool:
    """Whether ``option`` may follow ``before`` on the next group of a cluster."""
    if before is None:
        return option is None
    return option is None or option.tp <= before.tp
