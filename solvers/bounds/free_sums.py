"""Most units that memory permits on a run of stages with free warm-up counts.

If a stage and those after it take T ns of work, the stage needs at least
ceil(T / lambda) warm-ups (the window from it to the last stage; ``free_warmups``). So
the more units the stages after it hold, the fewer fit on it. Compiled.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.compiled import compiled, part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Costs = NDArray[np.float64]
    Ints = NDArray[np.int64]

#: Quotients of floats that exceed a whole number by less count as whole.
_NEARLY = 1e-9


@compiled
def limit_freely(
    run: Costs, fits: Ints, within: Ints, after: float, period: float, caps: Ints
) -> None:
    """Lower ``caps`` to what memory permits.

    Stages are filled from the last to the first, each as far as possible: leaving room
    on one does not make room on another.

    Parameters
    ----------
    run
        Least time of l neighbouring units, in ns; shape (K, L + 1).
    fits
        Most units of a stage with w + 1 warm-ups; shape (K, W).
    within
        Most units that lambda permits on a stage; shape (K,).
    after
        Least time of a unit on other clusters; if positive, these all follow.
    caps
        Most units on m stages; shape (K, M + 1).
    """
    length = run.shape[1] - 1
    for k in range(run.shape[0]):
        held = np.zeros(caps.shape[1], dtype=np.int64)
        if after <= 0.0:
            _fill(run[k], fits[k], within[k], 0.0, period, length, held)
            for m in range(1, caps.shape[1]):
                caps[k, m] = min(caps[k, m], held[m])
            continue
        able = np.zeros(caps.shape[1], dtype=np.int64)
        for units in range(1, caps[k].max() + 1):
            begin = after * (length - units)
            _fill(run[k], fits[k], within[k], begin, period, units, held)
            for m in range(1, caps.shape[1]):
                if held[m] >= units:
                    able[m] = units
        for m in range(1, caps.shape[1]):
            caps[k, m] = min(caps[k, m], able[m])


@part
def _fill(
    run: Costs,
    fits: Ints,
    within: int,
    begin: float,
    period: float,
    most: int,
    held: Ints,
) -> None:
    """Write the most units on the last m stages, up to ``most``, into ``held``.

    Parameters
    ----------
    begin
        Time of the work after these stages.
    """
    units, reach = 0, 0
    for m in range(1, len(held)):
        if units < most:
            warmup = max(1, ceil((run[units] + begin) / period - _NEARLY))
            # Either this many warm-ups suffice, or at least one more is needed.
            room = warmup * period * (1 + _NEARLY) - begin
            while reach < most and run[reach + 1] <= room:
                reach += 1
            few = units + min(within, fits[min(warmup, len(fits)) - 1])
            more = units + min(within, fits[min(warmup + 1, len(fits)) - 1])
            units = min(most, max(units, min(few, reach), more))
        held[m] = units
