"""Stages of several chunks: what they change in verifying bounds.

With v chunks a stage, times are of one pass, of which there are q v, and the closed
form has a term more:

    T = F + (q v - 1) lambda + (v - 1) max(0, R - p lambda) + max g_i,

with F the fill, and R = F + 2 kappa of the way back a whole round; R <= 2 p lambda. T
rises with F and, as p divides q, with lambda. Memory and R depend on p, so everything
is done for one p at a time.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.check.plan.schedule.meeting import ways_of
from hetopt.check.plan.schedule.orders import most_held
from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.check.verify.fills import NEVER
from hetopt.check.verify.weights import both_chunks_at_rest, waiting_at_rest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable

    Ints = NDArray[np.int64]


def counted_twice(table: CostTable) -> CostTable:
    """Return a table in which omega counts links and uplinks twice.

    The closed form counts them so, whether they are shared or not; no other sharing is
    left in the table.
    """
    return replace(table, slices=tuple(map(_counted_twice, table.slices)))


def _counted_twice(part: TableSlice) -> TableSlice:
    home = np.array([layout.cluster for layout in part.layouts], dtype=np.int64)
    clusters = range(len(part.clusters))
    twice = np.zeros((len(clusters), len(clusters)), dtype=np.int64)
    for here, there in product(clusters, clusters):
        (ways,) = ways_of(part, (here, there), meeting=False)
        twice[here, there] = max((2 * way.keeps for way in ways), default=0)
    least = twice[home][:, home]
    return replace(part, occupancy_ns=np.maximum(part.occupancy_ns, least), shared=None)


def is_sized(table: CostTable) -> bool:
    """Whether memory depends on p, so that one p is treated at a time."""
    return table.chunks > 1 or STEPS[table.schedule].splits


def at_rest(table: CostTable, microbatches: int, stages: int) -> TableSlice:
    """Return the slice with the memory that does not depend on W counted as state.

    With one chunk that is what waits for gradients of weights, if anything does. With
    several, a stage holds W passes as under eager-1f1b, and (v - 1) p more, which count
    as state. Units at the ends of the model are in one chunk only, and hold what that
    chunk does, whatever W is.

    Parameters
    ----------
    stages
        p, which divides q if there are several chunks.
    """
    part = table.at(microbatches)
    if table.pairs is not None:
        return both_chunks_at_rest(table, part, stages)
    if part.chunks == 1:
        return waiting_at_rest(part, stages)
    ahead = (part.chunks - 1) * stages
    kinds = list(table.units)
    inside = [u for u, kind in enumerate(kinds) if table.body[kind]]
    held = np.full(len(table.body), ahead, dtype=np.int64)
    held[~np.array(table.body)] = NEVER
    ends = (
        (kinds[: inside[0]], 0, 0),
        (kinds[inside[-1] + 1 :], stages - 1, part.chunks - 1),
    )
    for end, stage, chunk in ends:
        most = most_held(stages, microbatches, part.chunks, stage, chunk)
        held[end] = np.minimum(held[end], most)
    # No stage holds a unit of a kind that is still ``NEVER``.
    held[held == NEVER] = 0
    return replace(
        part,
        clusters=tuple(
            replace(
                own,
                state_bytes=own.state_bytes + held * own.activation_bytes,
                activation_bytes=np.where(table.body, own.activation_bytes, 0),
            )
            for own in part.clusters
        ),
        ahead=ahead,
    )


class Rounds(NamedTuple):
    """How T depends on lambda and the fill; nanoseconds.

    Attributes
    ----------
    steps
        Factor of lambda: q v - 1.
    chunks
        v.
    stages
        p; used if v > 1, like ``back``.
    back
        Least kappa of the way back.
    """

    steps: int
    chunks: int = 1
    stages: int = 0
    back: int = 0

    @staticmethod
    def of(part: TableSlice, stages: int) -> Rounds:
        """Return the data of a slice with p stages."""
        steps = part.chunks * part.microbatches - 1
        if part.way_back is None:
            return Rounds(steps)
        layouts = np.unique(np.concatenate([own.layout for own in part.clusters]))
        back = part.transfer_ns[part.way_back][np.ix_(layouts, layouts)]
        return Rounds(steps, part.chunks, stages, int(back.min(initial=NEVER)))

    @property
    def slope(self) -> int:
        """Factor of lambda while every stage waits for long rounds."""
        return self.steps - (self.chunks - 1) * self.stages

    def fits(self, fill: int, period: int) -> bool:
        """Whether a round is at most 2 p lambda."""
        whole = fill + 2 * self.back
        return self.chunks == 1 or whole <= 2 * self.stages * period

    def enough(self, spent: int, fill: int) -> int:
        """Return the least whole lambda at which T without g reaches ``spent``.

        Parameters
        ----------
        spent
            T without g.
        """
        return self.least_period(spent, fill, fill + 2 * self.back)

    def least_period(self, spent: int, fill: int, whole_round: int) -> int:
        """Return the same for a known R; all arguments are in one unit."""
        enough = -(-(spent - fill) // max(1, self.steps))
        if self.chunks == 1:
            return enough
        waiting = spent - fill - (self.chunks - 1) * whole_round
        return min(enough, -(-waiting // self.slope))
