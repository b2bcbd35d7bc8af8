"""Price pipelines for each length, for many ways to cut the units at once.

A pipeline is given by the host of each stage: a cluster and a row of its strategies.
Times are in thousandths of a nanosecond. Periods are rounded down, so that sums of them
are bounds, too low by less than a nanosecond in a thousand micro-batches.
"""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.formulations.lengths.option import SCALE
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hetopt.cost.shapes import Floats, Ints
    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.lengths.option import Host
    from hetopt.plans.strategy import Strategy

    #: The table of a cluster, and a row of it.
    Row = tuple[ClusterTable, int]

#: Bounds in floating point are lowered by this share of themselves.
ROUNDING = 1e-12


class Costs(NamedTuple):
    """Costs of S cuts for micro-batches of one length, in ns; p stages.

    Attributes
    ----------
    forward, backward
        phi and beta of each stage; (S, p).
    kappa, omega
        Of each boundary; (S, p - 1).
    fits
        Whether stages have the memory for this length; (S,).
    """

    forward: Ints
    backward: Ints
    kappa: Ints
    omega: Ints
    fits: NDArray[np.bool_]

    @property
    def fill(self) -> Ints:
        """All stages and transfers; (S,)."""
        busy = self.forward.sum(axis=1) + self.backward.sum(axis=1)
        found: Ints = busy + 2 * self.kappa.sum(axis=1)
        return found


class Alone(NamedTuple):
    """Times of units if they were alone on a stage, for micro-batches of one length.

    Attributes
    ----------
    forward, backward
        phi and beta by stage and unit; (p, U).
    hops
        The least of all transfers, both ways.
    """

    forward: Floats
    backward: Floats
    hops: int

    @property
    def both(self) -> Floats:
        """Tau by stage and unit; (p, U)."""
        return self.forward + self.backward

    @property
    def shares(self) -> Floats:
        """How quick each stage is, as a share of all; (p, 1)."""
        tau = np.maximum(self.both, 1)
        quick = (tau[0] / tau).max(axis=1, keepdims=True)
        shares: Floats = quick / quick.sum()
        return shares


def evenly(own: Alone, shares: Floats) -> int:
    """Return the least mean of the stages' tau with these weights, in steps."""
    least = float((shares * own.both).min(axis=0).sum())
    return int(least * SCALE * (1 - ROUNDING))


class Prices(NamedTuple):
    """Prices of S cuts whose longest sequences are of one of L lengths.

    Attributes
    ----------
    fixed
        Time besides that of the micro-batches; (S,).
    rates
        What a micro-batch of each length adds, up to the longest; -1 where a strategy
        does not exist for this length; (S, longest + 1).
    fits
        Whether stages have the memory; (S,).
    """

    fixed: Ints
    rates: Ints
    fits: NDArray[np.bool_]


def warmups_of(schedule: str, hosts: Sequence[Host]) -> list[int]:
    """Return the warm-ups of every stage, which follow from the stages' clusters."""
    rule, counts = rule_of(schedule), [1]
    for i in reversed(range(len(hosts) - 1)):
        crosses = hosts[i].cluster != hosts[i + 1].cluster
        counts.append(counts[-1] + (rule.across if crosses else rule.inside))
    return counts[::-1]


class Pricing:
    """Prices pipelines of one seat, with micro-batches of one size.

    Parameters
    ----------
    tables
        One per length, the shortest first; L of them.
    microbatches
        The micro-batch count of the slices that are read.
    counts
        Micro-batches of each length, if one pipeline takes all sequences.
    """

    def __init__(
        self, tables: Sequence[CostTable], microbatches: int, counts: Sequence[int]
    ) -> None:
        self.table, self.counts = tables[-1], counts
        self._slices: list[TableSlice] = [each.at(microbatches) for each in tables]
        self._units = np.array(self.table.units)
        self._cuts = np.array(self.table.cuts)
        kinds = len(self.table.kinds)
        one_hot = np.arange(kinds) == self._units[:, None]
        #: Units of each kind before each cut; (U + 1, N).
        self._before = np.zeros((len(self._units) + 1, kinds), np.int64)
        np.cumsum(one_hot, axis=0, out=self._before[1:])

    @property
    def lengths(self) -> range:
        """Positions of the lengths, the shortest first."""
        return range(len(self._slices))

    def strategies(self, cluster: int) -> tuple[Strategy, ...]:
        """Return the strategies that a cluster has for any of the lengths."""
        each = (part.clusters[cluster].strategies for part in self._slices)
        return tuple(dict.fromkeys(chain.from_iterable(each)))

    def most_stages(self, host: Host) -> int:
        """Return how many stages of a strategy fit its cluster."""
        rows = (self.row(number, host) for number in self.lengths)
        return next((int(t.max_stages[k]) for t, k in filter(None, rows)), 0)

    def row(self, number: int, host: Host) -> Row | None:
        """Return the row of a strategy for a length; None if there is none."""
        own = self._slices[number].clusters[host.cluster]
        try:
            return own, own.row(host.strategy)
        except KeyError:
            return None

    def able(self, number: int, hosts: Sequence[Host]) -> list[Row] | None:
        """Return the rows of all stages for a length; None if one is missing."""
        rows = {host: self.row(number, host) for host in set(hosts)}
        found = [row for host in hosts if (row := rows[host]) is not None]
        return found if len(found) == len(hosts) else None

    def unit_times(self, rows: Sequence[Row]) -> list[Ints]:
        """Return forward and backward time of each unit on each stage; (U,) each."""
        return [t.round_trip_ns[k][self._units] for t, k in rows]

    def bounds(self, hosts: Sequence[Host]) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Return fixed part and rates that bound all cuts, by the longest length."""
        known: dict[int, Alone] = {}
        for number in self.lengths:
            rows = self.able(number, hosts)
            if rows is None or not self._may_fit(hosts, rows):
                continue
            part, ways = (
                self._slices[number],
                pairwise(int(t.layout[k]) for t, k in rows),
            )
            forward, backward = (
                np.array([each[self._units] for each in times], np.float64)
                for times in (
                    [t.forward_ns[k] for t, k in rows],
                    [t.backward_ns[k] for t, k in rows],
                )
            )
            hops = 2 * sum(int(part.transfer_ns[:, a, b].min()) for a, b in ways)
            known[number] = Alone(forward, backward, hops)
        warmups = np.array(warmups_of(self.table.schedule, hosts))[:, None]
        return {
            longest: self._least({n: known[n] for n in known if n <= longest}, warmups)
            for longest in known
        }

    def _may_fit(self, hosts: Sequence[Host], rows: Sequence[Row]) -> bool:
        """Whether the least of all stages together fits into their memory."""
        held = [t.state_bytes[k] + t.activation_bytes[k] for t, k in rows]
        usable = sum(self.table.usable_bytes[host.cluster] for host in hosts)
        return int(np.min(held, axis=0)[self._units].sum()) <= usable

    def _least(
        self, known: dict[int, Alone], warmups: Ints
    ) -> tuple[int, tuple[int, ...]]:
        """Return what ``bounds`` has for the last of these lengths.

        The slowest stage takes at least as long as if all stages took the same time,
        and the period is at least the window of all stages.
        """
        rates, fill = [-1] * (max(known) + 1), 0
        for number, own in known.items():
            whole = float(own.both.min(axis=0).sum()) + own.hops
            fill = int(whole * SCALE * (1 - ROUNDING))
            window = fill // int(warmups[0, 0])
            rates[number] = max(evenly(own, own.shares), window)
        return max(0, fill - rates[-1]), tuple(rates)

    def of(self, hosts: Sequence[Host], cuts: Ints) -> dict[int, Prices]:
        """Price every cut, by the longest length; of those with all the strategies.

        Parameters
        ----------
        cuts
            First units of the stages, and the number of units; (S, p + 1).
        """
        counts = self._before[cuts[:, 1:]] - self._before[cuts[:, :-1]]
        warmups = warmups_of(self.table.schedule, hosts)
        able = {n: own for n in self.lengths if (own := self.able(n, hosts))}
        if not able:
            return {}
        costs = {}
        for number, own in able.items():
            times = [(t.forward_ns[k], t.backward_ns[k]) for t, k in own]
            forward, backward = (
                np.stack([counts[:, i] @ each[kind] for i, each in enumerate(times)], 1)
                for kind in range(2)
            )
            kappa, omega = self._transfers(number, own, cuts)
            fits = self._fits(hosts, own, counts, warmups)
            costs[number] = Costs(forward, backward, kappa, omega, fits)
        shortest = min(able)
        sync = self._sync(shortest, able[shortest], counts)
        return self._prices(costs, sync, warmups)

    def _prices(
        self, costs: dict[int, Costs], sync: Ints, warmups: Sequence[int]
    ) -> dict[int, Prices]:
        """Return the prices of ``of``; ``sync`` is the g of every stage, (S, p)."""
        periods = {n: _period(each, warmups) for n, each in costs.items()}
        return {
            # Rounded down, as the period is.
            longest: Prices(
                SCALE * (own.fill + sync.max(axis=1)) - periods[longest] - 1,
                rates_of(periods, longest),
                own.fits,
            )
            for longest, own in costs.items()
        }

    def _sync(self, number: int, rows: Sequence[Row], counts: Ints) -> Ints:
        """Return g of the stages, by the rows of one length; (S, p)."""
        each = [
            int(t.sync_ns[k]) + counts[:, i] @ t.sync_unit_ns[k]
            for i, (t, k) in enumerate(rows)
        ]
        tied = self._slices[number].tied_ns
        if tied is not None and len(rows) > 1:
            ends = [int(t.layout[k]) for t, k in (rows[0], rows[-1])]
            each[0] = each[0] + int(tied[ends[0], ends[1]])
            each[-1] = each[-1] + int(tied[ends[0], ends[1]])
        return np.stack(each, axis=1)

    def _transfers(
        self, number: int, own: Sequence[Row], cuts: Ints
    ) -> tuple[Ints, Ints]:
        """Return kappa and omega of every boundary; (S, p - 1)."""
        part = self._slices[number]
        layouts = [int(t.layout[k]) for t, k in own]
        found = []
        for times in (part.transfer_ns, part.occupancy_ns):
            each = [
                times[self._cuts[cuts[:, i + 1] - 1], layouts[i], layouts[i + 1]]
                for i in range(len(own) - 1)
            ]
            empty = np.zeros((len(cuts), 0), np.int64)
            found.append(np.stack(each, 1) if each else empty)
        return found[0], found[1]

    def _fits(
        self,
        hosts: Sequence[Host],
        own: Sequence[Row],
        counts: Ints,
        warmups: Sequence[int],
    ) -> NDArray[np.bool_]:
        """Return whether every stage has the memory it needs; (S,)."""
        fits = np.ones(len(counts), dtype=np.bool_)
        for i, (t, k) in enumerate(own):
            held = t.state_bytes[k] + warmups[i] * t.activation_bytes[k]
            here = np.where(counts[:, i] > 0, t.temporary_bytes[k], 0)
            needed = int(t.fixed_bytes[k]) + counts[:, i] @ held + here.max(axis=1)
            fits &= needed <= self.table.usable_bytes[hosts[i].cluster]
        return fits


def rates_of(of: Mapping[int, Ints], longest: int) -> Ints:
    """Return what is known of lengths up to the longest, -1 where nothing is."""
    never = np.full_like(of[longest], -1)
    return np.stack([of.get(number, never) for number in range(longest + 1)], 1)


def _period(costs: Costs, warmups: Sequence[int]) -> Ints:
    """Return the period of every cut; MODEL.md section 4. Shape (S,)."""
    taus, kappa = costs.forward + costs.backward, costs.kappa
    found: Ints = SCALE * taus.max(axis=1)
    if kappa.shape[1]:
        found = np.maximum(found, SCALE * costs.omega.max(axis=1))
    for i in range(len(warmups)):
        length = taus[:, i]
        for k in range(i + 1, len(warmups)):
            length = length + 2 * kappa[:, k - 1] + taus[:, k]
            steps = warmups[i] - warmups[k] + 1
            found = np.maximum(found, SCALE * length // steps)
    return found
