"""Stages of several chunks: what they change in verifying bounds.

With v chunks a stage, times are of one pass, of which there are q v, and bounds are
those of paths. Memory depends on p, so everything is done for one p at a time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.check.plan.schedule.orders import most_held
from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.check.verify.fills import NEVER
from hetopt.check.verify.weights import both_chunks_at_rest, waiting_at_rest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.results.result import Objective

    Ints = NDArray[np.int64]


def of_paths(table: CostTable, objective: Objective) -> bool:
    """Whether bounds are those of ``simulated_bound``.

    They are if the simulated time is minimised, or the closed form of several chunks,
    which is no shorter than these paths.
    """
    return objective == "simulated" or table.chunks > 1


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


def ways_back_ns(part: TableSlice) -> int:
    """Return the least that a path's fill has for the ways back between chunks."""
    if part.way_back is None:
        return 0
    layouts = np.unique(np.concatenate([own.layout for own in part.clusters]))
    back = part.transfer_ns[part.way_back][np.ix_(layouts, layouts)]
    return 2 * (part.chunks - 1) * int(back.min(initial=NEVER))
