"""Fit a linear cost model by relative errors; forests learn corrections to it.

The fit gives the same numbers on every machine, so that tables do not differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hetopt.cost.shapes import Floats

#: Bits of a rate that are kept, about nine digits: processors differ in the order of
#: summation, and the fit must not depend on the processor.
_BITS = 30

#: Decimals of the logarithms that trees learn: their last bits differ between machines
#: too, and trees break ties between splits by them.
LOG_DECIMALS = 9


def linear_rates(
    terms: Floats, seconds: Floats, *, fixed_s: Floats | float = 0.0
) -> Floats:
    """Fit seconds = fixed_s + terms @ rates with rates >= 0 by least relative squares.

    Parameters
    ----------
    terms
        Shape (N, T), 0 or more.
    seconds, fixed_s
        Shape (N,): measured times, and the known part of them.

    Returns
    -------
    Shape (T,); every row of ``terms`` whose last term is positive has a positive time.
    """
    from scipy.optimize import nnls

    relative = terms / seconds[:, None]
    size = np.maximum(np.abs(relative).max(axis=0), np.finfo(float).tiny)
    rates, _ = nnls(relative / size, 1 - fixed_s / seconds)
    fitted = _short(rates / size)
    if not np.all(fixed_s + terms @ fitted > 0):
        # A shard has only work whose rate is 0: give the last term a small rate.
        fitted[-1] = max(fitted[-1], 1e-3 * float(seconds.min()))
    return fitted


def _short(rates: Floats) -> Floats:
    """Round to the nearest numbers of ``_BITS`` bits."""
    fractions, exponents = np.frexp(rates)
    short: Floats = np.ldexp(np.rint(np.ldexp(fractions, _BITS)), exponents - _BITS)
    return short
