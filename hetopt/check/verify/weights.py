"""Gradients of weights that run later: what verifying has to know of them.

With w of a stage they are, the closed form is (MODEL.md section 4)

    T = sum of (tau_i - 2 w_i) + 2 sum of kappa_i + (q - 1) lambda + max (g_i + 2 w_i),

and what a stage hands to those before it is tau - w. Where nothing runs later w is 0.
Memory depends on p, as that with several chunks does. Where stages are folded, a pair
of units hands on the longer of forward and B, and x, the longest of B / 2, B - w and
forward - B / 2, takes the place of tau - 2 w.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.cost.folding import PairTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable

    Ints = NDArray[np.int64]


class UnitTimes(NamedTuple):
    """What one unit takes by strategy and kind, in ns; shape (K, N).

    Attributes
    ----------
    busy
        Tau.
    fill, end
        What it adds to the fill, and to g.
    handed_on
        What of tau comes before a gradient is handed on.
    """

    busy: Ints
    fill: Ints
    end: Ints
    handed_on: Ints


def unit_times(own: ClusterTable) -> UnitTimes:
    """Return what one unit takes."""
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
        fill=fill,
        end=own.sync_unit_ns + busy - fill,
        handed_on=handed_on,
    )


def waiting_at_rest(part: TableSlice, stages: int) -> TableSlice:
    """Return the slice in which units hold at rest what waits for w.

    Of min(p, q) micro-batches; then an activation takes what it is larger by.

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
    """Return the slice in which pairs hold at rest what no warm-up of 1F1B is.

    A stage holds p micro-batches on both of its chunks, and of those on the first one
    more where these take more. The ends of the model are on the first stage.

    Parameters
    ----------
    stages
        p, less than q.
    """
    assert table.pairs is not None
    start = len(table.kinds) - len(table.pairs)
    clusters = []
    for own in part.clusters:
        assert own.weight_bytes is not None
        state, active = own.state_bytes.copy(), own.activation_bytes.copy()
        most = np.maximum(own.activation_bytes, own.weight_bytes)
        for kind, (down, up) in enumerate(table.pairs, start):
            first, second = most[:, down], most[:, up]
            if table.body[kind]:
                state[:, kind] += stages * (first + second)
                active[:, kind] = np.maximum(first - second, 0)
            else:
                held = min(2 * stages, part.microbatches)
                state[:, kind] += held * first + second
                active[:, kind] = 0
        clusters.append(replace(own, state_bytes=state, activation_bytes=active))
    return replace(part, clusters=tuple(clusters), ahead=stages)
