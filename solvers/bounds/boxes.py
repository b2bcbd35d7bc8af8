"""Lower bounds on a whole q, for problems with many clusters.

The relaxation (``relaxation``) adds up clusters over stages and units, which takes long
if there are many. ``BoxBounds`` adds them up over units alone, which bounds all p at
once in a few milliseconds. Unlike the relaxation, it includes gradient synchronisation:
if lambda is at most h and g at most s, no stage holds more units than either permits,
and plans with lambda >= l and g >= r cost at least

    fill(h, s) + (q - 1) l + r.

So plans are divided into boxes of lambda and g, and the box with the least bound is cut
in two.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.permitted import Permitted
from hetopt.solvers.bounds.box_runs import BoxFact, OptionEnd, Options
from hetopt.solvers.bounds.box_sums import combined, completed, spread
from hetopt.solvers.bounds.cluster_costs import ROLES, ClusterCosts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.chain import Chain
    from hetopt.problem.training.pins import Domain, Pins
    from hetopt.schedule.schedules import ScheduleRule

    Costs = NDArray[np.float64]
    Ints = NDArray[np.int64]

#: A range whose ends differ by a larger factor is cut at its geometric mean.
_WIDE = 4.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Box:
    """Plans of one q within a range of lambda and a range of g; times in ns.

    Attributes
    ----------
    bound
        Lower bound on their closed form.
    alive
        Options that such plans may use.
    """

    bound: float
    low: float
    high: float
    least_sync: float
    most_sync: float
    alive: Ints


class BoxBounds:
    """Lower bounds at one q, over all p.

    Attributes
    ----------
    names
        Cluster and strategy of each option, as indices into ``part``.
    """

    def __init__(
        self,
        *,
        table: CostTable,
        part: TableSlice,
        chain: Chain,
        pins: Pins,
        most_stages: int,
    ) -> None:
        self.part = part
        self.chain = chain
        self.more = part.passes - 1
        permitted = Permitted.of(pins, table.cluster_names)
        clusters = [
            ClusterCosts(
                table=table,
                part=part,
                chain=chain,
                permitted=permitted,
                j=j,
                most_stages=most_stages,
            )
            for j in range(len(table.cluster_names))
        ]
        self.may_rest = np.array([cluster.may_rest for cluster in clusters])
        self.names = [
            (j, k) for j, own in enumerate(clusters) for k in range(own.count)
        ]
        self._rule = clusters[0].rule
        self.options = self._options(clusters, most_stages)
        rate = sum(cluster.best_rate for cluster in clusters)
        shortest = min(cluster.shortest_unit for cluster in clusters)
        self._least_period = max(chain.length / rate if rate else inf, shortest)

    def _options(self, clusters: list[ClusterCosts], most_stages: int) -> Options:
        chain, part = self.chain, self.part
        rule, single = clusters[0].rule, not self.more
        places = 1 + rule.inside * most_stages + rule.across * len(clusters)
        places = 1 if rule.all_first else min(places, part.passes)
        size = chain.length + 1

        def gather(name: str, width: int = 0) -> Costs:
            rows = [np.asarray(getattr(own, name), dtype=float) for own in clusters]
            shape = (-1, width) if width else (-1,)
            return np.ascontiguousarray(
                np.concatenate([row.reshape(shape) for row in rows])
            )

        self._whole = gather("whole")
        run = gather("run", size)
        pace = [self._paces(j) for j in range(len(clusters))]
        sync = [
            own.cluster.sync_ns[:, None] + chain.shortest(own.cluster.end_unit_ns)
            for own in clusters
        ]
        ends = [
            own.cluster.end_unit_ns @ np.array([chain.lead, chain.trail]).T
            for own in clusters
        ]
        roles = [[role in own.roles for role in ROLES] for own in clusters]
        units = size - 1 + sum(chain.lead) + sum(chain.trail)
        return Options(
            cluster=np.array([j for j, _ in self.names], dtype=np.int64),
            most=np.concatenate([own.cluster.max_stages for own in clusters]),
            run=run,
            busy=gather("busy", size) if rule.splits else run,
            handed_on=gather("handed_on", size) if rule.splits else run,
            sync=np.ascontiguousarray(np.concatenate(sync), dtype=np.float64),
            edge=np.stack(
                [
                    gather("_inner"),
                    gather("before"),
                    gather("after"),
                    np.where(single, 0.0, gather("inner_pace")),
                    *np.where(single, 0.0, np.hstack(pace)),
                    np.repeat(_others(clusters), [own.count for own in clusters]),
                ]
            ),
            ends=np.stack(
                [
                    gather("lead"),
                    gather("trail"),
                    *np.concatenate(ends).T.astype(np.float64),
                ]
            ),
            fits=np.concatenate([_fits(own, places) for own in clusters]),
            roles=np.array(roles),
            stages_ok=_permitted([own.permitted_stages for own in clusters], size),
            units_ok=_permitted([own.permitted_units for own in clusters], units + 1),
            steps=self._steps(rule),
        )

    def _steps(self, rule: ScheduleRule) -> NDArray[np.int64]:
        """Return ``Options.steps``."""
        chain = self.chain
        steps = {
            BoxFact.STEP: rule.inside,
            BoxFact.GAP: rule.across,
            BoxFact.MOST_STEP: rule.most_inside,
            BoxFact.MOST_GAP: rule.most_across,
            # Where transfers block, no window exceeds its busiest stage.
            BoxFact.WINDOWS: not (rule.all_first or rule.blocking) and self.more > 0,
            BoxFact.UNIFORM: chain.is_uniform,
            BoxFact.LEADS: sum(chain.lead),
            BoxFact.TRAILS: sum(chain.trail),
            BoxFact.BLOCKING: rule.blocking,
        }
        return np.array([steps[fact] for fact in BoxFact], dtype=np.int64)

    def _paces(self, j: int) -> Costs:
        """Return the least omega from and to another cluster; shape (2, K)."""
        part, own = self.part, self.part.clusters[j].layout
        others = [a for a, layout in enumerate(part.layouts) if layout.cluster != j]
        classes = list(self.chain.cut_classes)
        if not others or not classes:
            return np.zeros((2, len(own)))
        omega = part.occupancy_ns[classes]
        into = omega[:, others][:, :, own].min(axis=(0, 1))
        out = omega[:, own][:, :, others].min(axis=(0, 2))
        return np.stack([into, out]).astype(np.float64)

    # ------------------------------------------------------------------ boxes

    def root(self) -> Box:
        """Return the box of all plans."""
        options, part = self.options, self.part
        sync = (
            options.sync[:, -1]
            + options.ends[OptionEnd.LEAD_SYNC]
            + options.ends[OptionEnd.TRAIL_SYNC]
        )
        tied = 0 if part.tied_ns is None else part.tied_ns.max(initial=0)
        return Box(
            bound=0.0,
            low=self._least_period if self.more else 0.0,
            high=self._longest_period() if self.more else inf,
            least_sync=float(options.sync[:, 1].min(initial=inf)),
            most_sync=float(sync.max(initial=0.0) + tied),
            alive=np.arange(len(self.names), dtype=np.int64),
        )

    def _longest_period(self) -> float:
        """Return a lambda that no plan exceeds, in ns.

        As every boundary adds a warm-up, lambda is at most one stage and one boundary
        both ways; if transfers block, one stage and both its boundaries.
        """
        slowest = float(self.part.transfer_ns.max(initial=0))
        boundaries = max(1, self._rule.blocking)
        return float(self._whole.max(initial=0.0)) + 2 * boundaries * slowest

    def bounded(self, box: Box, cutoff: float) -> Box | None:
        """Return the box with its bound, narrowed to what may be within the cutoff.

        None if nothing may be.
        """
        rest = self.more * box.low + box.least_sync
        high = min(
            box.high, (cutoff - box.least_sync) / self.more if self.more else inf
        )
        most_sync = min(box.most_sync, cutoff - self.more * box.low)
        if high < box.low or most_sync < box.least_sync:
            return None
        costs = self.costs(box.alive, high, most_sync)
        chosen = np.empty((len(self.may_rest), 2), dtype=np.int64)
        fill = combined(costs, self.may_rest, chosen)
        if fill + rest > cutoff or fill == inf:
            return None
        return Box(
            bound=max(box.bound, fill + rest),
            low=box.low,
            high=high,
            least_sync=box.least_sync,
            most_sync=most_sync,
            alive=box.alive,
        )

    def costs(self, alive: Ints, high: float, most_sync: float) -> Costs:
        """Return the least cost of l units by cluster and role; (J, 4, L + 1)."""
        costs = np.full((len(self.may_rest), 4, self.chain.length + 1), inf)
        spread(self.options, alive, high, most_sync, costs)
        return costs

    def by_option(self, box: Box) -> Costs:
        """Return a bound on the plans of a box that use each of its options."""
        costs = self.costs(box.alive, box.high, box.most_sync)
        fills = completed(
            self.options, box.alive, box.high, box.most_sync, costs, self.may_rest
        )
        return fills + (self.more * box.low + box.least_sync)

    def width(self, box: Box) -> float:
        """Return by how much the cost of lambda or of g varies within a box, in ns."""
        by_period = self.more * (box.high - box.low) if self.more else 0.0
        return max(by_period, box.most_sync - box.least_sync)

    def halves(self, box: Box, width: float) -> list[Box] | None:
        """Cut a box in two; return None if it is no wider than ``width``."""
        by_period = self.more * (box.high - box.low) if self.more else 0.0
        by_sync = box.most_sync - box.least_sync
        if max(by_period, by_sync) <= width:
            return None
        low, high = box.low, box.high
        least, most = box.least_sync, box.most_sync
        ranges = []
        if by_period >= by_sync:
            middle = _middle(low, high)
            ranges = [(low, middle, least, most), (middle, high, least, most)]
        else:
            middle = _middle(least, most)
            ranges = [(low, high, least, middle), (low, high, middle, most)]
        return [
            Box(
                bound=box.bound,
                low=a,
                high=b,
                least_sync=c,
                most_sync=d,
                alive=box.alive,
            )
            for a, b, c, d in ranges
        ]


def largest_box_bounds_bytes(table: CostTable) -> int:
    """Return about how many bytes bounds on boxes take: two rows per strategy."""
    strategies = max((part.strategy_count for part in table.slices), default=1)
    # The table of places takes at most as much again.
    return 4 * 8 * strategies * (len(table.units) + 1)


def _permitted(domains: list[Domain], count: int) -> NDArray[np.bool_]:
    return np.array([[own.permits(n) for n in range(count)] for own in domains])


def _others(clusters: list[ClusterCosts]) -> Costs:
    """Return the least time before a unit of other clusters hands on, by cluster."""
    units = [own.shortest_handed_on if own.count else inf for own in clusters]
    least = [
        min((unit for i, unit in enumerate(units) if i != j), default=inf)
        for j in range(len(units))
    ]
    return np.array([unit if unit < inf else 0.0 for unit in least])


def _middle(low: float, high: float) -> float:
    return sqrt(low * high) if 0 < _WIDE * low < high else (low + high) / 2


def _fits(own: ClusterCosts, places: int) -> Ints:
    """Return the most body units that memory permits, by place; (K, places)."""
    fits = np.zeros((own.count, places), dtype=np.int64)
    for place in range(places):
        fits[:, place] = own.units_at(1 + place)
    return fits
