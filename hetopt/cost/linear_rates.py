"""Fit a linear cost model to relative errors: what forests learn corrections to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hetopt.cost.shapes import Floats


def linear_rates(terms: Floats, seconds: Floats) -> Floats:
    """Fit seconds = terms @ rates, rates at least 0, least relative squares; (T,).

    Returns
    -------
    At least one rate is positive, so that the model is positive for all work.
    """
    from scipy.optimize import nnls

    relative = terms / seconds[:, None]
    size = np.maximum(np.abs(relative).max(axis=0), np.finfo(float).tiny)
    rates, _ = nnls(relative / size, np.ones(len(seconds)))
    fitted: Floats = rates / size
    if not np.all(terms @ fitted > 0):
        # Some shard does only work that was found to be free: charge for it a little.
        fitted[-1] = max(fitted[-1], 1e-3 * float(seconds.min()))
    return fitted
