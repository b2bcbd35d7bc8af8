"""The arrays that compiled searches of one (p, q) read, and the names of columns.

An *option* is a strategy of a cluster, numbered over all clusters. The body's
units are numbered from 0 at the front of the pipeline; a *cut* is the number of body
units before it. Sums over units are differences of prefix sums.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

#: Numbers for P4: one strategy per cluster, falling tensor degrees, or no limit.
SHARING = {"one": 0, "falling-tp": 1, "any": 2}


class Option(IntEnum):
    """Columns of ``Costs.option``.

    LEAD and TRAIL are each the first of a block with one column for each ``Sum``.
    """

    CLUSTER, RANK, LAYOUT, DEVICES, TENSOR = range(5)
    MOST_STAGES, SYNC_FIXED, FREE_BYTES, LEAD, TRAIL = 5, 6, 7, 8, 16


class Sum(IntEnum):
    """Rows of ``Costs.sums``, except PEAK, and the order within LEAD and TRAIL."""

    TAU, FORWARD, SYNC, STATE, ACTIVE, FILL, INSIDE, PEAK = range(8)


class Edge(IntEnum):
    """Rows of ``Costs.edge``."""

    KAPPA, OMEGA = range(2)


class HostColumn(IntEnum):
    """Columns of ``Costs.host``."""

    DEVICES, MAY_OPEN, MAY_CLOSE, COUNTS_UNITS, COUNTS_STAGES, LEADER, AHEAD = range(7)
    UPLINK = 7


class Stock(IntEnum):
    """Columns of ``Costs.stock``."""

    CLUSTER, LEAST, MOST = range(3)


class Delta(IntEnum):
    """Rows of delta: the least (for memory), and the largest (for the period)."""

    LIGHT, HEAVY = range(2)


class Shape(IntEnum):
    """Columns of ``Costs.shapes``."""

    OPTION, HOSTED = range(2)


class Fact(IntEnum):
    """Positions in ``Costs.facts``."""

    P, Q, L, TIED, GPIPE, CONSECUTIVE, SHARED, LEADS, TRAILS, PRICED = range(10)
    FREE, BLOCKING, CHUNKS, WAY_BACK, HOPS, WINDOWS, ENDS = range(10, 17)


class Weight(IntEnum):
    """Columns of ``Costs.weights``."""

    FORWARD, BACKWARD, LATER, AROUND = range(4)


class Costs(NamedTuple):
    """Arrays of whole numbers: O options, J clusters, L body units, A layouts.

    Attributes
    ----------
    option
        Per option: its cluster, index among that cluster's strategies, layout, devices
        of a stage, tensor degree, most stages, g without units, memory left for
        units, and the sums of the units in lead and trail.
    sums
        Prefix sums over body units of tau, forward time, time at the end of a stage (g;
        with gradients of weights apart, more), state and activation bytes, fill, and
        time in windows that other stages open (tau - 2 w and tau - w with gradients of
        weights apart; MODEL.md section 4); shape (7, O, L + 1).
    temporary
        Temporary bytes of each body unit; shape (O, L).
    edge
        kappa and omega by cut class and layouts; shape (2, X, A, A).
    cut
        Class of each cut; length L + 1, meaningless at both ends.
    home
        Cluster of each layout.
    tied
        Time that tied embeddings add to g, by first and last layout; shape (A, A).
    host
        Per cluster: devices, whether it may host the first and the last stage,
        whether its units and its stages have to be counted, the first cluster
        identical to it, and the identical ones that have to be used before, as bits;
        in bounds on simulated times (``on_paths``) how long a transfer occupies its
        uplink, 0 if no other one may need it.
    stock
        Without P4, limits beyond ``host``: a cluster, a number of devices LEAST, and
        the most devices of its stages of at least LEAST; by cluster, ascending.
    before
        Whether cluster i may stand directly before cluster j; shape (J, J).
    stages_ok
        Whether a cluster may host a number of stages; shape (J, p + 1).
    units_ok
        Whether a cluster may host a number of units, ends included; shape (J, U + 1).
    given
        Body units of each stage from the last one, -1 if free; length p.
    row
        Row of each subset of clusters (as bits) in a table over the subsets that may
        be unused, -1 for other subsets. Not used if devices have prices.
    shapes
        Excluded shapes: option and stages of each run from the end of the pipeline,
        -1 after the last one; shape (shapes, p + 1, 2).
    facts
        p, most micro-batches held (q, or passes beside those ahead), L, whether
        embeddings are tied, whether gpipe, whether P3 holds, P4 as in ``SHARING``,
        units at the front, units at the end, whether the rest is bounded by prices
        of devices rather than by subsets of clusters, whether warm-up counts are free,
        how many transfers block per micro-batch (chi), chunks of a stage (v), the least
        kappa of the way back, how often the fill of paths has kappa, whether windows
        are paths, and whether the end of a pipeline is simulated by itself.
    weights
        Those of a stage's path by W, without passes that every stage runs ahead
        (``hetopt.schedule.paths``); shape (most held + 1, 4), in bounds on simulated
        times (``on_paths``), else empty.
    """

    option: Ints
    sums: Ints
    temporary: Ints
    edge: Ints
    cut: Ints
    home: Ints
    tied: Ints
    weights: Ints
    host: Ints
    stock: Ints
    before: Ints
    stages_ok: Ints
    units_ok: Ints
    given: Ints
    row: Ints
    shapes: Ints
    facts: Ints
