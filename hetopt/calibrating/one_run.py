"""Correcting the latency table by one run.

One measured iteration is one number, so it corrects one kind of factor: the share of
their modelled or profiled speed that devices of the plan's clusters reach
(``efficiency``), or the share of their bandwidth that links inside nodes
(``intra_node``) or networks between nodes and clusters (``bandwidth``) reach. Factors
are bounded: a difference that they cannot correct in full is reported.
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
from hetopt.calibrating.noise import ensure_reliable
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
    """The correction of a problem's table by one run.

    Attributes
    ----------
    calibration
        The new calibration.
    before_s, after_s
        The plan's simulated iteration with the problem's own, and with the new
        calibration.
    bounded
        Factors that could not correct the difference in full because of their bounds.
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
    force: bool = False,
) -> Fit:
    """Find the factor with which the plan's simulated iteration takes ``measured_s``.

    Parameters
    ----------
    correct
        The kind of factor that is corrected.
    clusters
        Clusters whose efficiency is corrected; those of the plan by default.
    force
        Let a noisy run set a factor to its bound.

    Raises
    ------
    InputError
        The plan's time does not depend on these factors, or the run is noisy and sets
        one to its bound.
    """
    plan = Repriced(run.problem, run.plan)
    old = run.problem.calibration
    factors = factors_of([correct], clusters or run.plan.clusters)
    low, high = BOUNDS[correct]

    def corrected(ratio: float) -> Calibration:
        """Return the calibration with factors times ``ratio``, within their bounds."""
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
    ensure_reliable([run], corrected(ratio), factors, force=force)
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
    # An iteration's time falls as the factor rises: bisect the factor's logarithm.
    slowest, quickest = math.log(low), math.log(high)
    while quickest - slowest > PRECISION / 2:
        middle = (slowest + quickest) / 2
        if seconds(math.exp(middle)) > measured_s:
            slowest = middle
        else:
            quickest = middle
    return math.exp((slowest + quickest) / 2)
