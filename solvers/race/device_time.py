"""Lower bounds by device time, as if work could be divided without loss.

They bound every (p, q) at once, or the plans that use one strategy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.table.ticks import TICK_S
from hetopt.formulations.chain import Chain
from hetopt.formulations.scale import scaled_below

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable

#: Bounds in floating point are lowered by this share of themselves.
_ROUNDING = 1e-12

#: Sums and products of floating-point times are off by less than this share of them.
_SLACK = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRates:
    """The best rates of devices at one q; J clusters.

    A stage is busy for at most lambda, so cluster j hosts at most devices_j *
    lambda / w_j body units, where w_j is the least device time of one.

    Attributes
    ----------
    per_device
        1 / w_j, in units per ns; 0 where a cluster has no strategy; shape (J,).
    shortest_ns, least_fill_ns
        Least time of one unit on any cluster, and least that it adds to the fill.
    """

    per_device: NDArray[np.float64]
    shortest_ns: float
    least_fill_ns: float

    @classmethod
    def of(cls, table: CostTable, part: TableSlice) -> Self:
        """Return the rates at the q of a slice."""
        return cls.at(part, list(Chain.of(table).kinds))

    @classmethod
    def at(cls, part: TableSlice, kinds: Sequence[int]) -> Self:
        """Return the rates of a slice for units of these kinds."""
        rates, shortest, fill = [], np.inf, np.inf
        for own in part.clusters:
            if not own.strategies:
                rates.append(0.0)
                continue
            tau = own.round_trip_ns[:, kinds].min(axis=1)
            # A long time multiplied by the number of devices may exceed 64 bits.
            work = max(1.0, float((tau.astype(np.float64) * own.devices).min()))
            rates.append(1 / work)
            shortest = min(shortest, int(tau.min()))
            fill = min(fill, int(own.fill_ns[:, kinds].min()))
        return cls(per_device=np.array(rates), shortest_ns=shortest, least_fill_ns=fill)

    def busy_ns(
        self,
        devices: NDArray[np.int64] | NDArray[np.float64],
        passes: int,
        units: int,
    ) -> NDArray[np.float64]:
        """Return how long some stage is busy at least, under any schedule.

        It takes the least lambda in each of its passes.

        Parameters
        ----------
        devices
            Devices of each cluster; shape (..., J).
        passes, units
            Passes of a stage in an iteration, and body units of a pass.

        Returns
        -------
        Infinite where no device has a strategy; shape (...).
        """
        rate = devices @ self.per_device
        with np.errstate(divide="ignore"):
            busy = np.where(rate > 0, passes * units / rate, np.inf)
        return busy * (1 - _ROUNDING)


def least_values(table: CostTable, *, closed: bool) -> dict[int, int]:
    """Bound the objective of all plans of each q, at once.

    The bounds hold under any schedule and principles: a device counts with the best
    strategy of its cluster, whichever the stages have.

    Parameters
    ----------
    closed
        Whether the objective is the closed form, in which the pipeline also has to be
        filled. The simulated time is only known to be at least what devices compute.

    Returns
    -------
    By q, in 1 / PERIOD_SCALE ticks; a q without strategies is left out.
    """
    found: dict[int, int] = {}
    devices, units = np.array(table.cluster_devices), Chain.of(table).length
    for part in table.slices:
        rates = DeviceRates.of(table, part)
        least = float(rates.busy_ns(devices, part.passes, units))
        if not np.isfinite(least):
            continue
        # With several chunks a path need not have the whole fill beside all passes.
        if closed and table.chunks == 1:
            period = max(least / part.passes, rates.shortest_ns)
            filled = (part.passes - 1) * period + units * rates.least_fill_ns
            least = max(least, filled)
        found[part.microbatches] = scaled_below(least)
    return found


def least_ns(part: TableSlice, chain: Chain) -> list[NDArray[np.float64]]:
    """Bound the closed form of plans that use each strategy, in ns; (K,) per cluster.

    The work of a body unit is its time on the cheapest strategy, by kind. The stages of
    strategy k have a highest rate of work, and those of every other cluster the rate of
    its best strategy. Lambda is at least all work over the sum of these rates, and at
    least the shortest unit of k. All stages of a cluster share a strategy (P4).
    """
    kinds, body = list(chain.kinds), chain.prefix[-1]
    clusters = part.clusters
    work = _cheapest_ns(clusters, kinds, body)
    # Highest rate of work of each strategy, and of the best one of every cluster.
    done = [_done(own, kinds, work, chain.length) for own in clusters]
    best = np.array([each.max(initial=0.0) for each in done])
    fills = [own.fill_ns.min(axis=0, initial=2**62) for own in clusters]
    units = body + np.array(chain.lead) + np.array(chain.trail)
    found = []
    for j, own in enumerate(clusters):
        # A unit may also be on any other cluster.
        fill = own.fill_ns
        for other in (*fills[:j], *fills[j + 1 :]):
            fill = np.minimum(fill, other)
        capacity = done[j] + np.delete(best, j).sum()
        tau = own.round_trip_ns[:, kinds].min(axis=1, initial=2**62)
        period = np.maximum(float(work @ body[kinds]) / capacity, tau)
        taken = fill.astype(np.float64) @ units + (part.passes - 1) * period
        found.append(taken * (1 - _SLACK))
    return found


def _cheapest_ns(
    clusters: tuple[ClusterTable, ...], kinds: list[int], body: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return tau by kind of the strategy that takes the least device time; (kinds,)."""
    least, found = np.inf, np.ones(len(kinds))
    for own in clusters:
        tau = np.maximum(own.round_trip_ns[:, kinds], 1).astype(np.float64)
        taken = (tau @ body[kinds]) * own.devices
        if taken.min(initial=np.inf) < least:
            least, found = float(taken.min()), tau[taken.argmin()]
    return found


def _done(
    own: ClusterTable, kinds: list[int], work: NDArray[np.float64], length: int
) -> NDArray[np.float64]:
    """Return the most work per ns that all stages of each strategy do; (K,)."""
    tau = np.maximum(own.round_trip_ns[:, kinds], 1)
    done: NDArray[np.float64] = np.minimum(own.max_stages, length) * (
        (work / tau).max(axis=1, initial=0.0)
    )
    return done


def least_times_s(
    table: CostTable, devices: NDArray[np.int64] | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Bound the time of all plans on given numbers of devices, under any schedule.

    Parameters
    ----------
    devices
        Devices of each of J clusters, for F choices; shape (F, J).

    Returns
    -------
    Seconds, valid for the simulated time and the closed form; infinite where there is
    no plan; shape (F,).
    """
    chain = Chain.of(table)
    units, kinds = chain.length, list(chain.kinds)
    if table.pairs is not None:
        # Under another schedule the units of a pair may be on different clusters.
        start = len(table.kinds) - len(table.pairs)
        kinds = sorted({unit for kind in kinds for unit in table.pairs[kind - start]})
        units *= 2
    least = np.full(len(devices), np.inf)
    for part in table.slices:
        rates = DeviceRates.at(part, kinds)
        least = np.minimum(least, rates.busy_ns(devices, part.passes, units))
    return least * TICK_S
