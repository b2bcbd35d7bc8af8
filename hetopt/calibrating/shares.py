"""The share of an iteration's time that depends on each factor of a calibration."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hetopt.calibrating.factors import value_of, with_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.calibrating.factors import Factor
    from hetopt.calibrating.runs import Repriced
    from hetopt.problem.calibration import Calibration

#: Half the width of the differences, as a logarithm: wide enough that rounding times to
#: nanoseconds does not matter, and small compared with usual corrections.
STEP = 0.03


def time_shares(
    plans: Sequence[Repriced], factors: Sequence[Factor], calibration: Calibration
) -> NDArray[np.float64]:
    """Return the share of each plan's time that each factor divides; (plans, factors).

    A share is ``-d log(time) / d log(factor)``, by central differences, one-sided at a
    factor's bounds: 1 if all the time is spent on what the factor makes faster, 0 if
    none is, or if it is overlapped by something else.
    """
    found = np.empty((len(plans), len(factors)))
    for column, factor in enumerate(factors):
        value = value_of(calibration, factor)
        low, high = factor.bounds
        slow = max(value * math.exp(-STEP), low)
        quick = min(value * math.exp(STEP), high)
        slower = with_values(calibration, [factor], [slow])
        quicker = with_values(calibration, [factor], [quick])
        for row, plan in enumerate(plans):
            gained = math.log(plan.seconds(slower) / plan.seconds(quicker))
            found[row, column] = gained / math.log(quick / slow)
    return found
