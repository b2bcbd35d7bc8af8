"""Limits within which the arithmetic of a latency table is exact.

Every time in a table is at most ``table.ticks.TOO_LONG_NS`` and every size at most
``quantity.TOO_MANY_BYTES``. Solvers and checkers add them up over the units of a
stage in 64 bits: a table is refused here if the largest stage would exceed them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.words import counted
from hetopt.cost.table.ticks import LONGEST_S, TICK_S, TOO_LONG_NS
from hetopt.errors import InputError
from hetopt.schedule.schedules import MAX_DELTA, rule_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.shapes import Floats, Ints
    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable

#: Largest sum of times or sizes over a stage: two of them fit 64 bits.
LARGEST_SUM = 2**62

#: Sizes up to this are kept exactly, for reports, even if no device has as much.
_ORDINARY_BYTES = 2**40


def nanoseconds(seconds: Floats) -> Ints:
    """Round to the nearest tick, at most ``TOO_LONG_NS``."""
    # Limited twice: the quotient may overflow, or exceed the limit by a tick.
    ticks = np.minimum(seconds, 2 * LONGEST_S) / TICK_S
    return np.rint(np.minimum(ticks, TOO_LONG_NS)).astype(np.int64)


def at_most_half(seconds: Floats, of_ns: Ints) -> Ints:
    """Round to the nearest tick, at most half of another time."""
    return np.minimum(nanoseconds(seconds), of_ns // 2)


def whole_bytes(size_bytes: Floats, limit_bytes: int) -> Ints:
    """Round up to whole bytes, limited to a size that fits no device.

    Parameters
    ----------
    limit_bytes
        Usable bytes of a device.
    """
    most = max(limit_bytes + 1, _ORDINARY_BYTES)
    return np.ceil(np.minimum(size_bytes, most)).astype(np.int64)


def ensure_sums_fit(table: CostTable, file: str | None = None) -> None:
    """Refuse a table whose sums over a stage may exceed 64 bits.

    Parameters
    ----------
    file
        The table's file, for error messages; None if the table was not read from one.

    Raises
    ------
    InputError
        A stage of all units could exceed the largest sum of times or bytes.
    """
    counts = np.bincount(table.units, minlength=len(table.kinds)).astype(np.float64)
    for field, part in slices_of(table):
        in_flight, rule = part.passes, rule_of(table.schedule)
        if not (rule.all_first or rule.free or rule.interleaved):
            in_flight = min(in_flight, MAX_DELTA * len(table.units))
        longest = 2.0 * len(table.units) * float(part.transfer_ns.max(initial=0))
        for number, cluster in enumerate(part.clusters):
            where = f"{field}.clusters.{number}"
            longest_ns = longest + _largest_ns(cluster, counts)
            if longest_ns > LARGEST_SUM:
                msg = (
                    f"the {counted(len(table.units), 'unit')} take up to "
                    f"{longest_ns:.0f} ns in all, expected at most 2**62 "
                    f"({LARGEST_SUM}): fewer units, or faster devices and links"
                )
                raise InputError(msg, file=file, field=where)
            largest = _largest_bytes(cluster, counts, in_flight)
            if largest > LARGEST_SUM:
                msg = (
                    f"the {counted(len(table.units), 'unit')} with "
                    f"{counted(in_flight, 'micro-batch', 'es')} in flight take up to "
                    f"{largest:.0f} bytes, expected at most 2**62 ({LARGEST_SUM}): "
                    "fewer micro-batches (a smaller global_batch, or "
                    "pin.microbatches), or another schedule"
                )
                raise InputError(msg, file=file, field=where)


def slices_of(table: CostTable) -> Iterator[tuple[str, TableSlice]]:
    """Yield every slice, including those per unit, with its field."""
    for place, part in enumerate(table.slices):
        yield f"slices.{place}", part
    if table.per_unit is not None:
        for place, part in enumerate(table.per_unit.slices):
            yield f"per_unit.slices.{place}", part


def _largest_ns(cluster: ClusterTable, counts: Floats) -> float:
    """Return the longest time of any strategy, with ``counts`` units of each kind."""
    both = (cluster.forward_ns + cluster.backward_ns) @ counts
    sync = cluster.sync_ns + cluster.end_unit_ns @ counts
    return float(np.maximum(both, sync).max(initial=0))


def _largest_bytes(cluster: ClusterTable, counts: Floats, in_flight: int) -> float:
    """Return the most memory of any strategy with all units and ``in_flight``."""
    held = cluster.state_bytes @ counts + in_flight * (
        cluster.activation_bytes @ counts
    )
    if cluster.weight_bytes is not None:
        held = held + in_flight * (cluster.weight_bytes @ counts)
    once = cluster.fixed_bytes + cluster.temporary_bytes.max(axis=1, initial=0)
    return float((held + once).max(initial=0))
