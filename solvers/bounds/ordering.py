"""Find plans for one q: a local search improves the order of the clusters.

For a given order, lambda and g, ``bounds.ordering_loop`` divides units and stages
among the clusters within milliseconds. The plans found are candidates: they have to be
checked and priced exactly.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import factorial, inf
from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.decision import Decision
from hetopt.formulations.permitted import Permitted
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.bounds.box_runs import BoxFact, OptionEdge, OptionEnd
from hetopt.solvers.bounds.ordering_loop import OrderingData, Partial, order_clusters
from hetopt.solvers.decisions.copies import dealt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.training.pins import Pins
    from hetopt.solvers.bounds.boxes import Box, BoxBounds

    Ints = NDArray[np.int64]

#: Strategies of each cluster that are tried, and states kept per number of units.
_STRATEGIES, _WIDTH = 16, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """An order of clusters from the end of the pipeline, and the plan found for it."""

    order: list[int]
    fill: float
    path: Ints


class Ordering:
    """Searches plans within one box, over orders of the clusters.

    Parameters
    ----------
    groups
        Leaders (``identical``): of orders that differ only in identical clusters, one
        is tried.
    """

    def __init__(
        self,
        box_bounds: BoxBounds,
        box: Box,
        *,
        table: CostTable,
        pins: Pins,
        groups: Sequence[int],
        seed: str,
    ) -> None:
        self.box_bounds = box_bounds
        self._draw = random.Random(seed)
        self._pinned = pins.order
        self._groups = groups
        self._clusters = len(table.cluster_names)
        options = box_bounds.options
        own = _promising(box_bounds, box)
        self._names = [box_bounds.names[o] for o in own]
        hosts = options.cluster[own]
        self._first = np.searchsorted(hosts, np.arange(self._clusters + 1))
        self._run = options.busy[own]
        self._most = options.most[own].copy()
        single = not box_bounds.more
        self._most[options.edge[OptionEdge.INSIDE_PACE, own] > box.high] = 1
        self._inner, self._lead, self._trail = (
            np.ascontiguousarray(row)
            for row in (
                options.edge[OptionEdge.INSIDE, own],
                options.ends[OptionEnd.LEAD, own],
                options.ends[OptionEnd.TRAIL, own],
            )
        )
        by_sync = (options.sync[own] <= box.most_sync).sum(axis=1) - 1
        fits = np.minimum(options.fits[own], by_sync[:, None])
        self._fits = np.ascontiguousarray(fits)
        self._closing, self._opening = self._ends(table, own, box.most_sync)
        self._kappa, self._quick = self._boundaries(table, pins, hosts, box.high)
        # Lambda limits nothing if there is a single micro-batch.
        self._period = box.high if not single else 1e18
        self._windows = bool(options.steps[BoxFact.WINDOWS])
        steps = options.steps[[BoxFact.STEP, BoxFact.GAP]]
        self._steps = steps.astype(np.int64)
        self._data = OrderingData(
            first=self._first,
            run=self._run,
            by_option=np.stack([self._inner, self._lead, self._trail], axis=1),
            most=self._most,
            fits=self._fits,
            opening=self._opening,
            closing=self._closing,
            kappa=self._kappa,
            quick=self._quick,
            must=~box_bounds.may_rest,
            steps=np.array([*self._steps, self._windows], dtype=np.int64),
        )

    def _boundaries(
        self, table: CostTable, pins: Pins, hosts: Ints, period: float
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the least kappa between options, and which may follow each other."""
        part, chain = self.box_bounds.part, self.box_bounds.chain
        layouts = [int(part.clusters[j].layout[k]) for j, k in self._names]
        grid = np.ix_(list(chain.cut_classes), layouts, layouts)
        size = (len(layouts), len(layouts))
        kappa = part.transfer_ns[grid].min(axis=0, initial=2**62)
        omega = part.occupancy_ns[grid].min(axis=0, initial=2**62)
        quick = omega <= period if self.box_bounds.more else np.ones(size, dtype=bool)
        for i, j in Permitted.of(pins, table.cluster_names).apart:
            quick[np.ix_(hosts == i, hosts == j)] = False
        least = np.ascontiguousarray(kappa.reshape(size), dtype=np.float64)
        return least, np.ascontiguousarray(quick)

    def _ends(self, table: CostTable, own: Ints, most_sync: float) -> tuple[Ints, Ints]:
        """Return the most body units of the last stage, and of the first by place."""
        options, chain = self.box_bounds.options, self.box_bounds.chain
        places = np.arange(options.fits.shape[1])
        body = list(chain.kinds)
        closing: list[Ints] = []
        opening: list[Ints] = []
        for row, (o, (j, k)) in enumerate(zip(own, self._names, strict=True)):
            cluster = self.box_bounds.part.clusters[j]
            state, active = cluster.state_bytes[k], cluster.activation_bytes[k]
            for end, row_, found in (
                (chain.trail, OptionEnd.TRAIL_SYNC, closing),
                (chain.lead, OptionEnd.LEAD_SYNC, opening),
            ):
                counts = np.array(end)
                present = [*body, *np.flatnonzero(counts)]
                warmups = np.minimum(places + 1, self.box_bounds.more + 1)
                if rule_of(table.schedule).all_first:
                    warmups[:] = self.box_bounds.more + 1
                room = (
                    table.usable_bytes[j]
                    - cluster.fixed_bytes[k]
                    - cluster.temporary_bytes[k][present].max()
                    - state @ counts
                    - warmups * (active @ counts)
                )
                unit = state[body].max() + warmups * active[body].max()
                fits = np.minimum(room // np.maximum(unit, 1), self._fits[row])
                room_sync = most_sync - options.ends[row_, o]
                by_sync = int((options.sync[o] <= room_sync).sum()) - 1
                found.append(np.clip(np.minimum(fits, by_sync), 0, None))
        shape = (len(own), len(places))
        return (
            np.array(closing, dtype=np.int64).reshape(shape)[:, 0].copy(),
            np.array(opening, dtype=np.int64).reshape(shape),
        )

    # ----------------------------------------------------------------- search

    def improved(self, tries: int, order: Sequence[int] | None) -> Decision | None:
        """Return the best plan over at most ``tries`` orders; None if there is none.

        Parameters
        ----------
        order
            An order to start from.
        """
        best = self._line(self._start(order))
        if self._pinned is None:
            seen = {tuple(best.order)}
            # Few clusters have few orders.
            for _ in range(min(tries, 2 * factorial(min(len(best.order), 9)))):
                changed = list(dealt(self._neighbour(best.order), self._groups))
                if tuple(changed) in seen:
                    continue
                seen.add(tuple(changed))
                line = self._line(changed)
                if line.fill <= best.fill:
                    best = line
        return self._decision(best.path) if best.fill < inf else None

    def _start(self, order: Sequence[int] | None) -> list[int]:
        names = [
            j for j in range(self._clusters) if self._first[j] < self._first[j + 1]
        ]
        if self._pinned is not None:
            return list(order or ())
        known = [j for j in order or () if j in names]
        for j in names:
            if j not in known:
                known.insert(self._draw.randint(0, len(known)), j)
        return known

    def _neighbour(self, order: list[int]) -> list[int]:
        changed = list(order)
        if len(order) < 2:
            return changed
        a, b = self._draw.sample(range(len(order)), 2)
        if self._draw.random() < 0.5:
            changed[a], changed[b] = changed[b], changed[a]
        else:
            changed.insert(b, changed.pop(a))
        return changed

    def _line(self, order: list[int]) -> _Line:
        fill, path = order_clusters(
            np.array(order, dtype=np.int64),
            self._data,
            self._period,
            _WIDTH,
        )
        return _Line(order=order, fill=fill, path=path)

    # ------------------------------------------------------------------ plans

    def _decision(self, path: Ints) -> Decision:
        box_bounds = self.box_bounds
        units: list[int] = []
        other, delay = -1, 0.0
        for row in path[::-1]:
            shares, delay = self._shares(row, other, delay)
            units += shares
            other = int(row[Partial.OPTION])
        units.reverse()
        units[0] += int(box_bounds.options.steps[BoxFact.LEADS])
        units[-1] += int(box_bounds.options.steps[BoxFact.TRAILS])
        hosts = [self._names[row[Partial.OPTION]] for row in path]
        return Decision(
            microbatches=box_bounds.part.microbatches,
            order=tuple(j for j, _ in hosts),
            strategies=tuple(
                box_bounds.part.clusters[j].strategies[k] for j, k in hosts
            ),
            hosted=tuple(int(row[Partial.STAGES]) for row in path),
            units=tuple(units),
        )

    def _shares(self, row: Ints, other: int, delay: float) -> tuple[list[int], float]:
        """Return the units of a run's stages, last one first, and E of its first stage.

        Parameters
        ----------
        other, delay
            Option of the next run in the pipeline, -1 if there is none, and E of its
            first stage.
        """
        o, stages, left = (
            int(row[Partial.OPTION]),
            int(row[Partial.STAGES]),
            int(row[Partial.UNITS]),
        )
        step, gap = (int(n) for n in self._steps)
        run, places = self._run[o], self._fits.shape[1]
        place = int(row[Partial.PLACE]) - step * (stages - 1)
        carry, shares = 0.0, []
        if other >= 0:
            carry = delay + 2 * float(self._kappa[o, other]) - gap * self._period
        for m in range(stages):
            load = max(0.0, carry) if self._windows else 0.0
            share = int(self._fits[o, min(max(place + step * m, 0), places - 1)])
            if other < 0 and not m:
                load += float(self._trail[o])
                share = min(share, int(self._closing[o]))
            within = int(np.searchsorted(run, self._period - load, side="right")) - 1
            share = min(share, within) if m < stages - 1 else left
            shares.append(share)
            left -= share
            delay = float(run[share]) + load
            carry = delay + 2 * float(self._inner[o]) - step * self._period
        return shares, delay


def _promising(box_bounds: BoxBounds, box: Box) -> Ints:
    """Return the options of each cluster with the least bounds, ascending."""
    bounds = box_bounds.by_option(box)
    hosts = box_bounds.options.cluster[box.alive]
    chosen: list[int] = []
    for j in range(len(box_bounds.may_rest)):
        own = np.flatnonzero((hosts == j) & (bounds < inf))
        best = own[np.argsort(bounds[own], kind="stable")[:_STRATEGIES]]
        chosen += sorted(int(o) for o in box.alive[best])
    return np.array(chosen, dtype=np.int64)
