"""Gradients of weights that run later: what they change in verifying bounds.

If they take w of a stage, the closed form is (MODEL.md section 4)

    T = sum of (tau_i - 2 w_i) + 2 sum of kappa_i + (q - 1) lambda + max (g_i + 2 w_i),

and earlier stages wait for tau - w of it. If nothing runs later, w is 0. Memory depends
on p, as it does with several chunks. If stages are folded, earlier stages wait for the
longer of forward and B of each pair of units, and x, the largest of B / 2, B - w and
forward - B / 2, replaces tau - 2 w.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.cost.folding import PairTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable

    Ints = NDArray[np.int64]


class UnitTimes(NamedTuple):
    """Times of one unit by strategy and kind, in ns; shape (K, N).

    Attributes
    ----------
    busy, forward
        Tau, and the part of it that is forward.
    fill, end
        What it adds to the fill, and to g.
    handed_on
        The part of tau before a gradient is sent on.
    """

    busy: Ints
    forward: Ints
    fill: Ints
    end: Ints
    handed_on: Ints


def unit_times(own: ClusterTable) -> UnitTimes:
    """Return the times of one unit."""
    busy = own.forward_ns + own.backward_ns
    later = np.zeros_like(busy) if own.weight_ns is None else own.weight_ns
    fill, handed_on = busy - 2 * later, busy - later
    if isinstance(own, PairTable):
        passed = own.backward_ns - later
        half = passed // 2
        ahead = own.forward_ns - half
        fill = np.maximum(np.maximum(passed - half, passed - later), ahead)
        handed_on = np.maximum(own.forward_ns, passed)
    return UnitTimes(
        busy=busy,
        forward=own.forward_ns,
        fill=fill,
        end=own.sync_unit_ns + busy - fill,
        handed_on=handed_on,
    )


def waiting_at_rest(part: TableSlice, stages: int) -> TableSlice:
    """Return the slice with what waits for w counted as state.

    It counts for min(p, q) micro-batches; activations then count what exceeds it.

    Parameters
    ----------
    stages
        p.
    """
    if all(own.weight_bytes is None for own in part.clusters):
        return part
    most = min(stages, part.microbatches)
    clusters = []
    for own in part.clusters:
        assert own.weight_bytes is not None
        clusters.append(
            replace(
                own,
                state_bytes=own.state_bytes + most * own.weight_bytes,
                activation_bytes=np.maximum(own.activation_bytes, own.weight_bytes)
                - own.weight_bytes,
            )
        )
    return replace(part, clusters=tuple(clusters))


def both_chunks_at_rest(table: CostTable, part: TableSlice, stages: int) -> TableSlice:
    """Return the slice with the memory of pairs that does not depend on W as state.

    A further micro-batch on the first chunk counts by how much it exceeds one on the
    second (``Steps.pair_bytes``). The ends are on the first stage. What stages that
    repeat a building block hold does not depend on W.

    Parameters
    ----------
    stages
        p, less than q.
    """
    assert table.pairs is not None
    start = len(table.kinds) - len(table.pairs)
    steps, clusters = STEPS[table.schedule], []
    q, at_ends = part.microbatches, steps.most_at_ends(stages, part.microbatches)
    for own in part.clusters:
        assert own.weight_bytes is not None
        state, active = own.state_bytes.copy(), own.activation_bytes.copy()
        for kind, (down, up) in enumerate(table.pairs, start):
            first, second = (
                (own.activation_bytes[:, unit], own.weight_bytes[:, unit])
                for unit in (down, up)
            )
            if table.body[kind]:
                rest, more = steps.pair_bytes(stages, q, first, second)
            else:
                most = np.maximum(*first), np.maximum(*second)
                rest, more = at_ends[0] * most[0] + at_ends[1] * most[1], 0
            state[:, kind] += rest
            active[:, kind] = more
        clusters.append(replace(own, state_bytes=state, activation_bytes=active))
    ahead = stages if steps.room is None else 0
    return replace(part, clusters=tuple(clusters), ahead=ahead)
