"""A random forest per class of operators: the logarithm of time over roofline time.

Roofline time is a linear cost model of compute, traffic, a wave and a start (``Work``),
whose rates are fitted to the relative errors of the rows it learns from. The forest
corrects it, and answers with averages of corrections it has seen: far outside of them
it is as good as the roofline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.cost.linear_rates import linear_rates

if TYPE_CHECKING:
    from hetopt.cost.operators.work import Work
    from hetopt.cost.shapes import Floats

_TREES = 100

#: Share of the features a split chooses from. The few rows of attention cores need all;
#: multiplications on kernels left out are half a per cent better with half of them.
_MAX_FEATURES, _MAX_FEATURES_OF_CORES = 0.5, 1.0


class OperatorForest:
    """A forest for the kernels of one class on one device."""

    def __init__(self, work: Work, seconds: Floats) -> None:
        """Grow a forest.

        Parameters
        ----------
        seconds
            Measured times; (R,), R at least 1.
        """
        # Loading scikit-learn takes a second or two.
        from sklearn.ensemble import RandomForestRegressor

        self._rates = linear_rates(work.terms, seconds)
        self._trees: list[Any] = (
            RandomForestRegressor(
                n_estimators=_TREES,
                max_features=(
                    _MAX_FEATURES_OF_CORES if work.bound_by_compute else _MAX_FEATURES
                ),
                random_state=0,
                n_jobs=1,
            )
            .fit(work.features, np.log(seconds / self.roofline_s(work)))
            .estimators_
        )

    def roofline_s(self, work: Work) -> Floats:
        """Return the times of the fitted roofline alone; (R,)."""
        seconds: Floats = work.terms @ self._rates
        return seconds

    def predict_s(self, work: Work) -> Floats:
        """Predict the times of R kernels, all at once; (R,)."""
        rows = work.features.astype(np.float32)
        answers = np.mean([tree.predict(rows) for tree in self._trees], axis=0)
        seconds: Floats = np.exp(answers) * self.roofline_s(work)
        return seconds
