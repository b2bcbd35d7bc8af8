"""Gradients of weights that run later: what verifying has to know of them.

With w of a stage they are, the closed form is (MODEL.md section 4)

    T = sum of (tau_i - 2 w_i) + 2 sum of kappa_i + (q - 1) lambda + max (g_i + 2 w_i),

and what a stage hands to those before it is tau - w. Where nothing runs later w is 0.
Memory depends on p, as that with several chunks does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table import ClusterTable, TableSlice

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
    later
        w.
    """

    busy: Ints
    fill: Ints
    end: Ints
    handed_on: Ints
    later: Ints


def unit_times(own: ClusterTable) -> UnitTimes:
    """Return what one unit takes."""
    busy = own.forward_ns + own.backward_ns
    later = np.zeros_like(busy) if own.weight_ns is None else own.weight_ns
    return UnitTimes(
        busy=busy,
        fill=busy - 2 * later,
        end=own.sync_unit_ns + 2 * later,
        handed_on=busy - later,
        later=later,
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
