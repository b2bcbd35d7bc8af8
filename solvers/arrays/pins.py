"""The user's pins as the arrays that compiled searches read."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.formulations.program import ProgramData
    from hetopt.problem.training import Domain
    from hetopt.solvers.arrays.program import Ints


def pinned(data: ProgramData, guests: Sequence[int]) -> dict[str, Ints]:
    """Return the user's pins; the options on offer have those on strategies.

    They are the fields before, stages_ok, units_ok and given of ``Costs``, and host but
    for its last two columns.
    """
    p, chain = data.stages, data.chain
    names = [data.names[j] for j in guests]
    pins = [data.pins.of(name) for name in names]
    index = {name: i for i, name in enumerate(names)}
    before = np.ones((len(names), len(names)), dtype=np.int64)
    may_open = np.ones(len(names), dtype=np.int64)
    may_close = np.ones(len(names), dtype=np.int64)
    stages_ok = _permitted([own.stages for own in pins], p)
    units = chain.length + sum(chain.lead) + sum(chain.trail)
    units_ok = _permitted([own.units for own in pins], units)
    for first, second in data.pins.forbidden_next:
        if first in index and second in index:
            before[index[first], index[second]] = 0
    order = data.pins.order
    if order is not None and all(name in index for name in order):
        wanted = np.zeros_like(before)
        for first, second in pairwise(order):
            wanted[index[first], index[second]] = 1
        before &= wanted
        may_open[:] = may_close[:] = 0
        may_open[index[order[0]]] = may_close[index[order[-1]]] = 1
        for name, i in index.items():
            if name in order:
                stages_ok[i, 0] = 0
            else:
                stages_ok[i, 1:] = 0
    given = np.full(p, -1, dtype=np.int64)
    if data.pins.units is not None:
        # Of another number of stages none can be right.
        body = list(data.pins.units) if len(data.pins.units) == p else [0] * p
        body[0] -= sum(chain.lead)
        body[-1] -= sum(chain.trail)
        given[:] = np.maximum(body[::-1], 0)
    counted = [1 - units_ok[:, 1:].min(axis=1), 1 - stages_ok[:, 1:].min(axis=1)]
    stock = np.array([data.devices[j] for j in guests], dtype=np.int64)
    columns = [stock, may_open, may_close, *counted]
    host = np.ascontiguousarray(np.stack(columns, axis=1))
    return {
        "host": host,
        "before": before,
        "stages_ok": stages_ok,
        "units_ok": units_ok,
        "given": given,
    }


def _permitted(domains: Sequence[Domain], most: int) -> Ints:
    rows = [[domain.permits(value) for value in range(most + 1)] for domain in domains]
    return np.array(rows, dtype=np.int64).reshape(len(domains), most + 1)
