"""Data of labels: columns, the facts of one q, and the remaining costs."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

PS_PER_NS = 1000


class At(IntEnum):
    """Columns of a label."""

    MASK, OPTION, IN_RUN, UNITS, FILL, CARRY = range(6)
    OTHER, SYNC, PARENT, HELD, NEXT, STAYS, AFTER, WARMUP = range(6, 14)


class Cost(IntEnum):
    """Columns of a unit's costs.

    LATER is the part of FORWARD and BACKWARD that no stage before waits for, FILL the
    part of them that counts in the fill.
    """

    FORWARD, BACKWARD, STATE, ACTIVE, TEMPORARY, SYNC, LATER, FILL = range(8)


class Path(IntEnum):
    """Positions in ``Facts.path``.

    Warm-ups that all stages have beside W; whether they are free, and whether stages
    have several chunks; whether paths go round between two stages, and whether to keep
    every label.
    """

    AHEAD, FREE, CHUNKED, TURNS, EVERY = range(5)


class Rule(IntEnum):
    """How the schedule limits lambda and warm-ups; ONCE: there is one micro-batch.

    PATHS: the time is simulated, so the excess of paths is limited.
    """

    STEADY, ALL_FIRST, ONCE, PATHS = range(4)


class Facts(NamedTuple):
    """One q of a table; O strategies of all clusters, N kinds, L body units.

    Attributes
    ----------
    cluster, layout, stages
        Of each strategy; ``stages`` is the most that the nodes hold; length O.
    room
        Bytes for units, per strategy; length O.
    once
        g of a stage without its units, in ns, per strategy; length O.
    unit
        Costs of one unit, by kind; shape (O, N, 8).
    lead, trail
        The same for all units at either end together; shape (O, 8).
    kinds
        Kind of each body unit; length L.
    cut
        Class of the cut before each body unit; length L.
    kappa, omega
        As in the table; shape (X, A, A).
    follows
        Whether cluster j may come directly after i; shape (C, C).
    opens, closes
        Whether a cluster may host the first stage, and the last; length C.
    needed
        The clusters that must be used, as bits.
    flights, rule
        q, or with several chunks the most passes in flight without those that are
        counted as state; and a ``Rule``.
    steps, paces
        Least and most warm-ups that a boundary adds: inside a cluster, between
        clusters.
    tied
        The least that tied embeddings add to g, of the first and of the last of several
        stages; shape (2, O).
    dearer, slower
        Of two layouts of one cluster: the most by which kappa from another cluster into
        the first exceeds that into the second, and the largest omega that does, 0 if
        none; shape (A, A).
    dearest
        Largest kappa from another cluster into a layout; length A.
    blocking
        Consecutive transfers per micro-batch that both stages of a boundary wait for.
    weights
        Those of ``simulated_bound`` by W; shape (n + 1, 4), empty in closed form.
    path
        See ``Path``.
    first_end
        The least that a path's end takes on the first stage, in ns; length O.
    uplink
        How long a transfer occupies the uplink, in ns; 0 if it has none of its own, or
        paths do not count; length C.
    """

    cluster: Ints
    layout: Ints
    stages: Ints
    room: Ints
    once: Ints
    unit: Ints
    lead: Ints
    trail: Ints
    kinds: Ints
    cut: Ints
    kappa: Ints
    omega: Ints
    follows: Flags
    opens: Flags
    closes: Flags
    needed: int
    flights: int
    rule: int
    steps: Ints
    paces: Ints
    tied: Ints
    dearer: Ints
    slower: Ints
    dearest: Ints
    blocking: int
    weights: Ints
    path: Ints
    first_end: Ints
    uplink: Ints


class Left(NamedTuple):
    """Remaining costs of labels, and the lists in which labels are kept.

    Attributes
    ----------
    run
        Least fill of l neighbouring body units, in ns; shape (O, L + 1).
    within
        Most body units of a stage that another one of its cluster follows, by the
        stages that end with it; shape (O, P + 1).
    inner, into
        Least kappa within the cluster, and into it; length O.
    rest
        Least fill of m stages with l body units on clusters outside of a set; shape
        (2^C, P + 1, L + 1).
    budgets
        Most ns that F and g may be by stage count, below 0 if it is not sought;
        length P + 1.
    place
        Number of a set of clusters and a strategy (a place), -1 if it has none yet;
        shape (2^C, O).
    slack
        Most ns that F and g may be at a place; shape (places, P + 1, L + 1).
    finish, held
        Scratch; shape (P + 1, L + 1), and length 8.
    used
        Number of places in use; length 1.
    heads
        First label of each place; shape (places, L + 1).
    leaving
        First label of each set of clusters and cluster; shape (2^C, C, L + 1).
    calm
        E in ps that every boundary before a stage hides, by the class of the cut before
        the stage, and its strategy; shape (X, O).
    low_ps
        Lower end of lambda, or of the excess; length 1.
    """

    run: Ints
    within: Ints
    inner: Ints
    into: Ints
    rest: Ints
    budgets: Ints
    place: Ints
    slack: Ints
    finish: Ints
    held: Ints
    used: Ints
    heads: Ints
    leaving: Ints
    calm: Ints
    low_ps: Ints
