"""The room that memory leaves on a cluster if warm-up counts are free (``auto``).

The window from stage i to the last one, which has W = 1 at least, requires

    W_i >= ceil(T_i / lambda),  T_i = sum of tau_i.. + 2 kappa_i..  (MODEL.md section 4)

so the more a stage and those after it hold, the more micro-batches are in flight on
it, and the fewer units fit. With all forwards first q are in flight, which no window
requires to exceed, so limits found for a steady state hold for that, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeRoom:
    """The units that fit on rows of stages of one cluster, for K strategies.

    Attributes
    ----------
    run
        Least time of l neighbouring body units, in ns; shape (K, L + 1).
    inner
        Least kappa between two stages of the cluster, in ns; shape (K,).
    fits
        Most body units on a stage with w + 1 micro-batches in flight, w = 0, 1, ...;
        the last column is for all more. Shape (K, W).
    stages
        Most stages for which there are devices; shape (K,).
    """

    run: Ints
    inner: Ints
    fits: Ints
    stages: Ints

    def most_units(self, period: int, within: Ints, after: Ints) -> Ints:
        """Return the most body units on the last m stages of the cluster, m = 0..M.

        0 if not even one unit fits on each of them.

        Parameters
        ----------
        period
            Lambda is at most this, in ns.
        within
            Most body units of a stage that keeps to lambda; shape (K,).
        after
            Least time after the cluster's last unit, in ns, in N cases;
            shape (K, N).

        Returns
        -------
        Shape (K, N, M + 1).
        """
        length = self.run.shape[1] - 1
        most_stages = int(self.stages.max(initial=0))
        most = np.zeros((*after.shape, most_stages + 1), dtype=np.int64)
        units = np.zeros(after.shape, dtype=np.int64)
        able = np.ones(after.shape, dtype=np.bool_)
        # Strategies that still have devices, and room in some case.
        rows = np.arange(len(self.run))
        for m in range(1, min(most_stages, length) + 1):
            stay = (self.stages[rows] >= m) & able.any(axis=1)
            rows, units, able = rows[stay], units[stay], able[stay]
            if not len(rows):
                break
            begin = after[rows] + 2 * (m - 1) * self.inner[rows, None]
            own = self._fitting(rows, self.run[rows, m : m + 1] + begin, period)
            able &= own >= 1
            held = np.take_along_axis(self.run[rows], units, axis=1)
            warmups = _warmups(held + begin, period)
            # Either the present warm-ups suffice, or at least one more is needed.
            limit = within[rows, None]
            few = units + np.minimum(limit, self._at(rows, warmups))
            more = units + np.minimum(limit, self._at(rows, warmups + 1))
            reach = self._reached(rows, warmups * period - begin)
            units = np.maximum(units, np.maximum(np.minimum(few, reach), more))
            units = np.minimum(units, length)
            most[rows, :, m] = np.where(able, units, 0)
        return most

    def _fitting(self, rows: Ints, time: Ints, period: int) -> Ints:
        return self._at(rows, _warmups(time, period))

    def _at(self, rows: Ints, warmups: Ints) -> Ints:
        """Return the most units of a stage with W warm-ups."""
        column = np.minimum(warmups, self.fits.shape[1]) - 1
        fitting: Ints = self.fits[rows[:, None], column]
        return fitting

    def _reached(self, rows: Ints, time: Ints) -> Ints:
        """Return the most units that take no longer than a time."""
        width = self.run.shape[1]
        top = int(self.run.max(initial=0)) + 1
        # One search for all rows, each shifted above the previous one.
        lift = top * np.arange(len(rows))[:, None]
        places = np.searchsorted(
            (self.run[rows] + lift).ravel(),
            np.clip(time, 0, top - 1) + lift,
            side="right",
        )
        reached: Ints = places - width * np.arange(len(rows))[:, None] - 1
        return reached


def _warmups(time: Ints, period: int) -> Ints:
    return np.maximum(1, -(-time // period))
