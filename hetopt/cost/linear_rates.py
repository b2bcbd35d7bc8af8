"""Fit a linear cost model to relative errors: what forests learn corrections to.

The same is learnt on every machine, whose tables would differ otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hetopt.cost.shapes import Floats

#: Bits that are kept of a rate, some nine digits: processors add up in orders of their
#: own, and what is fitted must not depend on where.
_BITS = 30

#: Decimals that trees learn of logarithms, as these too differ in their last bits, by
#: which trees break ties between splits.
LOG_DECIMALS = 9


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
    fitted = _short(rates / size)
    if not np.all(terms @ fitted > 0):
        # Some shard does only work that was found to be free: charge for it a little.
        fitted[-1] = max(fitted[-1], 1e-3 * float(seconds.min()))
    return fitted


def _short(rates: Floats) -> Floats:
    """Return the nearest numbers of ``_BITS`` bits."""
    fractions, exponents = np.frexp(rates)
    short: Floats = np.ldexp(np.rint(np.ldexp(fractions, _BITS)), exponents - _BITS)
    return short
