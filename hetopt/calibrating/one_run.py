"""Correcting the latency table by what one run took.

One measured iteration tells one number, so it corrects one thing: what the devices of
the plan's clusters reach of their modelled or profiled speed (``efficiency``), what the
links inside nodes reach of their bandwidth (``intra_node``), or what the networks
between nodes and clusters do (``bandwidth``). Factors are
bounded: a difference that they cannot correct in full is reported.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetopt.calibrating.factors import (
    BOUNDS,
    factors_of,
    rounded,
    value_of,
    with_values,
)
from hetopt.calibrating.runs import Repriced
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.calibrating.factors import Corrected
    from hetopt.calibrating.runs import MeasuredRun
    from hetopt.problem.calibration import Calibration

#: Relative precision of a factor: no run is measured more precisely.
PRECISION = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What a run says about a problem's table.

    Attributes
    ----------
    calibration
        To be used from now on.
    before_s, after_s
        The plan's simulated iteration with the problem's own, and with the new
        calibration.
    bounded
        What the bounds did not let correct in full.
    """

    calibration: Calibration
    before_s: float
    after_s: float
    bounded: tuple[str, ...]


def fit(
    run: MeasuredRun,
    *,
    correct: Corrected = "efficiency",
    clusters: tuple[str, ...] = (),
) -> Fit:
    """Find the factor with which the plan's simulated iteration takes ``measured_s``.

    Parameters
    ----------
    correct
        What the difference is blamed on.
    clusters
        Whose efficiency is corrected; those of the plan by default.

    Raises
    ------
    InputError
        The plan's time does not depend on what is to be corrected.
    """
    plan = Repriced(run.problem, run.plan)
    old = run.problem.calibration
    factors = factors_of([correct], clusters or run.clusters)
    low, high = BOUNDS[correct]

    def corrected(ratio: float) -> Calibration:
        """Return a calibration with one thing changed, within its bounds."""
        values = [
            rounded(min(max(value_of(old, factor) * ratio, low), high))
            for factor in factors
        ]
        return with_values(old, factors, values)

    def seconds(ratio: float) -> float:
        return plan.seconds(corrected(ratio))

    if seconds(low / high) == seconds(high / low):
        raise InputError(f"the plan's iteration time does not depend on {correct}")
    ratio = _bisected(seconds, run.measured_s, low / high, high / low)
    after_s = seconds(ratio)
    off = abs(after_s / run.measured_s - 1) > 10 * PRECISION
    return Fit(
        calibration=corrected(ratio),
        before_s=plan.seconds(old),
        after_s=after_s,
        bounded=(f"{correct} ({low:g} to {high:g})",) if off else (),
    )


def _bisected(
    seconds: Callable[[float], float], measured_s: float, low: float, high: float
) -> float:
    """Return the factor with which an iteration takes ``measured_s``."""
    # Iterations only get shorter as a factor rises: halve its logarithm.
    slowest, quickest = math.log(low), math.log(high)
    while quickest - slowest > PRECISION / 2:
        middle = (slowest + quickest) / 2
        if seconds(math.exp(middle)) > measured_s:
            slowest = middle
        else:
            quickest = middle
    return math.exp((slowest + quickest) / 2)
