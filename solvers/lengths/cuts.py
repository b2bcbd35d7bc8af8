"""Ways to cut the units of a model into stages."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.shapes import Ints

#: If there are at most this many cuts, all of them are priced.
MOST_CUTS = 200


def all_cuts(body: Sequence[bool], stages: int) -> Ints | None:
    """Return every way to cut the units; None if there are more than ``MOST_CUTS``.

    Parameters
    ----------
    body
        Whether each unit belongs to a layer, of which every stage needs one; length U.

    Returns
    -------
    First units of the stages, and U; shape (S, stages + 1).
    """
    units = len(body)
    if comb(units - 1, stages - 1) > MOST_CUTS:
        return None
    before = np.concatenate(([0], np.cumsum(body)))
    inner = list(combinations(range(1, units), stages - 1))
    cuts = np.zeros((len(inner), stages + 1), np.int64)
    cuts[:, -1] = units
    if stages > 1:
        cuts[:, 1:-1] = inner
    return cuts[(np.diff(before[cuts], axis=1) > 0).all(axis=1)]


def even_cut(taus: Sequence[Ints], body: Sequence[bool]) -> Ints | None:
    """Return the cut with the least time of its slowest stage; None if there is none.

    Parameters
    ----------
    taus
        Time of each unit, by stage; (U,) each.

    Returns
    -------
    First units of the stages, and U; shape (stages + 1,).
    """
    units = len(body)
    before = np.concatenate(([0], np.cumsum(body)))
    # By first and end unit: whether a unit of a layer is between them.
    some = before[None, :] > before[:, None]
    slowest = np.full(units + 1, np.inf)
    slowest[0] = 0
    chosen = []
    for tau in taus:
        sums = np.concatenate(([0], np.cumsum(tau)))
        own = np.where(some, sums[None, :] - sums[:, None], np.inf)
        both = np.maximum(slowest[:, None], own)
        chosen.append(both.argmin(axis=0))
        slowest = both.min(axis=0)
    if np.isinf(slowest[units]):
        return None
    ends = [units]
    for best in reversed(chosen):
        ends.append(int(best[ends[-1]]))
    return np.array(ends[::-1], dtype=np.int64)
