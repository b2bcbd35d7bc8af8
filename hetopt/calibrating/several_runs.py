"""Correcting the latency table by several runs at once.

All factors are fitted jointly: the efficiency of each cluster that the runs use, and
the bandwidths of the links inside nodes and of the networks. The fit has the least sum,
over the runs, of the squares of log(simulated / measured), plus ``PULL`` squared times
the sum of the squares of the factors' logarithmic changes. The remaining error is
judged by leaving out each run in turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import least_squares

from hetopt.calibrating.alike import ensure_alike
from hetopt.calibrating.factors import factors_of, rounded, value_of, with_values
from hetopt.calibrating.noise import ensure_reliable
from hetopt.calibrating.runs import Repriced
from hetopt.calibrating.shares import time_shares
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.calibrating.factors import Corrected, Factor
    from hetopt.calibrating.runs import MeasuredRun
    from hetopt.problem.calibration import Calibration

#: Weight of a factor's change relative to a run's error, both as logarithms: a ratio of
#: standard deviations. A corrected table is still off by about 1.5% for a run, and
#: factors by about half (0.25 to 2 are their bounds). It hardly affects factors that
#: the runs determine, and keeps the others at their old values.
PULL = 0.03

#: Tolerance of factors' logarithms: no run is measured more precisely.
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class JointFit:
    """The correction by several runs; tuples of seconds are in the order of runs.

    Attributes
    ----------
    calibration
        The new calibration.
    factors
        The factors that were fitted.
    before_s, after_s
        The simulated iterations with the problems' own, and with the new calibration.
    left_out_s
        The simulated iteration of each run with the calibration fitted to the others.
    bounded
        Factors that are at a bound.
    """

    calibration: Calibration
    factors: tuple[Factor, ...]
    before_s: tuple[float, ...]
    after_s: tuple[float, ...]
    left_out_s: tuple[float, ...]
    bounded: tuple[str, ...]


def fit_jointly(
    runs: Sequence[MeasuredRun],
    *,
    correct: Corrected | None = None,
    clusters: tuple[str, ...] = (),
    force: bool = False,
) -> JointFit:
    """Fit the factors so that all plans' simulated iterations are near the measured.

    Parameters
    ----------
    runs
        Two or more, of problems with the same clusters, links and calibration.
    correct
        The only kind of factor that is corrected; None for all kinds.
    clusters
        Clusters whose efficiency is corrected; those of the plans by default.
    force
        Let noisy runs set a factor to its bound.

    Raises
    ------
    InputError
        Clusters, links, latency sources or calibrations of two problems differ, no
        plan's time depends on these factors, or a run is noisy and a factor at its
        bound.
    """
    for run in runs[1:]:
        ensure_alike(runs[0], run)
    kinds: tuple[Corrected, ...] = ("efficiency", "intra_node", "bandwidth")
    used = dict.fromkeys(name for run in runs for name in run.plan.clusters)
    factors = factors_of(kinds if correct is None else [correct], clusters or used)
    plans = [Repriced(run.problem, run.plan) for run in runs]
    old = runs[0].problem.calibration
    if not time_shares(plans, factors, old).any():
        raise InputError(f"no plan's iteration time depends on {correct}")
    measured = np.array([run.measured_s for run in runs])
    found = _fitted(plans, measured, factors, old)
    ensure_reliable(runs, found, factors, force=force)
    left_out = []
    for row, plan in enumerate(plans):
        others = [other for other in plans if other is not plan]
        without = _fitted(others, np.delete(measured, row), factors, old)
        left_out.append(plan.seconds(without))
    values = [(factor, value_of(found, factor)) for factor in factors]
    return JointFit(
        calibration=found,
        factors=tuple(factors),
        before_s=tuple(plan.seconds(old) for plan in plans),
        after_s=tuple(plan.seconds(found) for plan in plans),
        left_out_s=tuple(left_out),
        bounded=tuple(
            f"{factor} ({factor.bounds[0]:g} to {factor.bounds[1]:g})"
            for factor, value in values
            if value in factor.bounds
        ),
    )


def _fitted(
    plans: Sequence[Repriced],
    measured_s: NDArray[np.float64],
    factors: Sequence[Factor],
    old: Calibration,
) -> Calibration:
    """Return the calibration with the least sum of squares, rounded as in files."""
    start = np.array([value_of(old, factor) for factor in factors])
    low, high = np.log(np.array([factor.bounds for factor in factors]).T / start)

    def changed(logs: NDArray[np.float64]) -> Calibration:
        return with_values(old, factors, list(start * np.exp(logs)))

    def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        calibration = changed(logs)
        ours = np.array([plan.seconds(calibration) for plan in plans])
        return np.concatenate([np.log(ours / measured_s), PULL * logs])

    def slopes(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        shares = time_shares(plans, factors, changed(logs))
        return np.concatenate([-shares, PULL * np.eye(len(factors))])

    solved = least_squares(
        residuals,
        np.zeros(len(factors)),
        jac=slopes,
        bounds=(low, high),
        # This method ends exactly on a bound if the least sum lies beyond it.
        method="dogbox",
        xtol=TOLERANCE,
    )
    values = [rounded(value) for value in start * np.exp(solved.x)]
    return with_values(old, factors, values)
