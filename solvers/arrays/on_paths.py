"""Arrays of the bounds that paths give (``hetopt.schedule.paths``)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from hetopt.schedule.paths import PathForm
from hetopt.solvers.arrays.costs import Edge, Fact, Option, Sum
from hetopt.solvers.arrays.windows import INFINITE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.formulations.program import ProgramData
    from hetopt.solvers.arrays.costs import Costs, Ints

#: Longer than a table's longest time, and small enough to be added up over stages.
_NEVER = INFINITE >> 12


class Beside(IntEnum):
    """Rows of what ``beside`` returns: inside a run, after a stage and before it."""

    INSIDE, AFTER, BEFORE = range(3)


def beside(costs: Costs, used: NDArray[np.bool_]) -> Ints:
    """Return the least kappa of boundaries beside a stage, by option; shape (3, O).

    Longer than any if there are none.

    Parameters
    ----------
    used
        Whether a boundary of a cut class may be between two layouts; (X, A, A).
    """
    own, kappa = costs.option[:, Option.LAYOUT], costs.edge[Edge.KAPPA]
    kappa = np.where(used, kappa, _NEVER)
    inside = kappa.min(axis=0).diagonal()
    least = inside, kappa.min(axis=(0, 2)), kappa.min(axis=(0, 1))
    return np.stack([row[own] for row in least])


def on_paths(costs: Costs, data: ProgramData, guests: Sequence[int]) -> Costs:
    """Return costs for bounds on the simulated time, with weights and uplinks.

    FILL is the share of a stage in the fill of paths, SYNC what the first stage adds to
    the end, and INSIDE what the weight LATER is of: w, or g without fill and end.
    """
    path, part = PathForm(data.rule), data.part

    def changed(old: Ints) -> Ints:
        """Return the rows of a block whose first axis is ``Sum``."""
        new, tau, inside = old.copy(), old[Sum.TAU], old[Sum.INSIDE]
        sync = old[Sum.SYNC] - tau + old[Sum.FILL]
        new[Sum.FILL] = new[Sum.SYNC] = 0
        new[Sum.INSIDE] = sync
        if path.fills:
            new[Sum.FILL] = costs.facts[Fact.CHUNKS] * inside
            new[Sum.SYNC], new[Sum.INSIDE] = sync + tau - inside, tau - inside
        return new

    option = costs.option.copy()
    if not path.fills:
        option[:, Option.SYNC_FIXED] = 0
    for end in (Option.LEAD, Option.TRAIL):
        block = slice(end, end + Sum.PEAK)
        option[:, block] = changed(costs.option[:, block].T).T
    weights = path.weights(
        np.arange(part.ahead, part.passes + 1),
        passes=part.passes,
        stages=data.stages,
        chunks=part.chunks,
    )
    uplink = np.zeros(len(guests), dtype=np.int64)
    if path.fills and part.shared is not None:
        uplink[:] = part.shared.uplink_ns[list(guests)]
    return costs._replace(
        option=option,
        host=np.column_stack([costs.host, uplink]),
        sums=changed(costs.sums),
        weights=np.ascontiguousarray(weights.T),
    )
