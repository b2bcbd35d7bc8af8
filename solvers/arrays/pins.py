"""The user's pins as the arrays that compiled searches read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.formulations.program import ProgramData
    from hetopt.problem.training.pins import Domain
    from hetopt.solvers.arrays.costs import Ints


def pinned(data: ProgramData, guests: Sequence[int]) -> dict[str, Ints]:
    """Return the user's pins, except those on strategies, which the options keep.

    They are the fields before, stages_ok, units_ok and given of ``Costs``, and host
    without its last two columns.
    """
    p, chain, permitted = data.stages, data.chain, data.permitted
    stages_ok = _permitted([permitted.stages[j] for j in guests], p)
    units = chain.length + sum(chain.lead) + sum(chain.trail)
    units_ok = _permitted([permitted.units[j] for j in guests], units)
    for i, j in enumerate(guests):
        if permitted.order is not None:
            stages_ok[i, 1:] &= j in permitted.order
            stages_ok[i, 0] &= j not in permitted.order
    before = [[permitted.may_follow(i, j) for j in guests] for i in guests]
    given = np.full(p, -1, dtype=np.int64)
    body = permitted.body(chain)
    if body is not None:
        # Pinned units for another number of stages permit no plan: 0 is too few.
        given[:] = np.maximum(body[::-1], 0) if len(body) == p else 0
    counted = [1 - units_ok[:, 1:].min(axis=1), 1 - stages_ok[:, 1:].min(axis=1)]
    stock = np.array([data.devices[j] for j in guests], dtype=np.int64)
    may_open = np.array([permitted.may_open(j) for j in guests], dtype=np.int64)
    may_close = np.array([permitted.may_close(j) for j in guests], dtype=np.int64)
    columns = [stock, may_open, may_close, *counted]
    host = np.ascontiguousarray(np.stack(columns, axis=1))
    return {
        "host": host,
        "before": np.array(before, dtype=np.int64).reshape(len(guests), len(guests)),
        "stages_ok": stages_ok,
        "units_ok": units_ok,
        "given": given,
    }


def _permitted(domains: Sequence[Domain], most: int) -> Ints:
    rows = [[domain.permits(value) for value in range(most + 1)] for domain in domains]
    return np.array(rows, dtype=np.int64).reshape(len(domains), most + 1)
