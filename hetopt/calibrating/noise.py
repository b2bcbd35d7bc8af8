"""Runs whose times are unreliable, and how far they may correct a factor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.calibrating.factors import value_of
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.calibrating.factors import Factor
    from hetopt.calibrating.runs import MeasuredRun
    from hetopt.problem.calibration import Calibration


def ensure_reliable(
    runs: Sequence[MeasuredRun],
    calibration: Calibration,
    factors: Sequence[Factor],
    *,
    force: bool,
) -> None:
    """Refuse a calibration by a noisy run if one of its factors is at a bound.

    Parameters
    ----------
    calibration, factors
        What was fitted to the runs, and which of its factors.
    force
        Refuse nothing.

    Raises
    ------
    InputError
        A run is noisy, and a factor at a bound; names the run's file.
    """
    noisy = next((run for run in runs if run.noise), None)
    if noisy is None or force:
        return
    for factor in factors:
        if (value := value_of(calibration, factor)) in factor.bounds:
            msg = (
                f"has {' and '.join(noisy.noise)}, and {factor} would be at its bound "
                f"of {value:g}: run again on a quiet machine, or calibrate with --force"
            )
            raise InputError(msg, file=noisy.file)
