"""Upper limits on the times in a program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.table.ticks import LONGEST_NS
from hetopt.formulations.scale import LONGEST, PERIOD_SCALE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table.slice import TableSlice
    from hetopt.formulations.chain import Chain


def objective_ceiling(part: TableSlice, chain: Chain, stages: int) -> int:
    """Return an objective, in 1 / PERIOD_SCALE ticks, that no plan exceeds.

    Units and boundaries count with their longest times anywhere, and the period is at
    most the fill. Longer objectives than ``LONGEST`` belong to no plan, and neither do
    times above ``LONGEST_NS``.
    """
    counts = chain.prefix[-1] + np.array(chain.lead) + np.array(chain.trail)
    used = [cluster for cluster in part.clusters if len(cluster.strategies)]
    times = [
        _longest(cluster.forward_ns) + _longest(cluster.backward_ns) for cluster in used
    ]
    syncs = [_longest(cluster.sync_ns) for cluster in used]
    sync_units = [_longest(cluster.end_unit_ns) for cluster in used]
    tied = 0 if part.tied_ns is None else int(_longest(part.tied_ns.reshape(-1)))
    fill = 2 * (stages - 1) * int(_longest(part.transfer_ns.reshape(-1)))
    sync = tied
    if used:
        fill += int(np.max(times, axis=0) @ counts)
        sync += int(max(syncs)) + int(np.max(sync_units, axis=0) @ counts)
    return min(LONGEST, PERIOD_SCALE * (part.passes * fill + sync))


def _longest(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the longest time along the first axis that a plan may have."""
    longest: NDArray[np.int64] = np.where(times > LONGEST_NS, 0, times).max(
        axis=0, initial=0
    )
    return longest


def within(part: TableSlice, cutoff: int) -> TableSlice:
    """Return the slice with times capped at one tick above the cutoff.

    A plan with a capped time exceeds the cutoff in any case, and programs get no
    coefficients that are larger than they need.
    """
    most = cutoff // PERIOD_SCALE + 1
    tied = part.tied_ns

    def cut(times: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.minimum(times, most)

    return replace(
        part,
        clusters=tuple(
            replace(
                own,
                forward_ns=cut(own.forward_ns),
                backward_ns=cut(own.backward_ns),
                sync_ns=cut(own.sync_ns),
                sync_unit_ns=cut(own.sync_unit_ns),
                weight_ns=(
                    None
                    if own.weight_ns is None
                    else np.minimum(own.weight_ns, cut(own.backward_ns) // 2)
                ),
            )
            for own in part.clusters
        ),
        transfer_ns=cut(part.transfer_ns),
        occupancy_ns=cut(part.occupancy_ns),
        tied_ns=None if tied is None else cut(tied),
    )
