"""A forest per class of operators: the logarithm of time over roofline time.

Roofline time is a linear cost model of compute, traffic, waves and starts (``Work``),
whose rates are fitted to the relative errors of the rows it learns from. Extremely
randomised trees correct it, and answer with averages of corrections they have seen: far
outside of them they are as good as the roofline.

Element-wise kernels that rows name have a roofline and trees each. All others are
answered by the rows without a name; if there are none, by the roofline of all rows
alone, whose corrections would be those of other kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.cost.linear_rates import linear_rates
from hetopt.cost.operators.file import (
    GROUP_MATMUL,
    MATMUL,
    MEMORY,
    SDP_BACKWARD,
    SDP_FORWARD,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hetopt.cost.operators.work import Work
    from hetopt.cost.shapes import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How trees grow.

    Attributes
    ----------
    trees
        How many.
    max_features
        Share of the features a split chooses from.
    min_samples_leaf
        Rows of a leaf, at least.
    """

    trees: int
    max_features: float
    min_samples_leaf: int


#: The few rows of attention cores need all features at every split. Of grouped
#: multiplications a handful of weights' shapes was measured: small leaves learn those
#: by heart.
SETTINGS = {
    MATMUL: Settings(trees=100, max_features=0.5, min_samples_leaf=1),
    GROUP_MATMUL: Settings(trees=100, max_features=0.5, min_samples_leaf=20),
    SDP_FORWARD: Settings(trees=60, max_features=1.0, min_samples_leaf=1),
    SDP_BACKWARD: Settings(trees=60, max_features=1.0, min_samples_leaf=1),
    MEMORY: Settings(trees=60, max_features=0.5, min_samples_leaf=1),
}


class OperatorForest:
    """What predicts the kernels of one class on one device."""

    def __init__(self, work: Work, seconds: Floats, settings: Settings) -> None:
        """Grow trees.

        Parameters
        ----------
        seconds
            Measured times; (R,), R at least 1.
        settings
            As ``SETTINGS`` has them by class.
        """
        self._curves: dict[str, _Curve] = {}
        if work.kernels is None:
            self._others = _Curve(work, seconds, settings)
            return
        for name, rows in _by_name(work.kernels):
            self._curves[name] = _Curve(work.at(rows), seconds[rows], settings)
        unnamed = self._curves.pop("", None)
        self._others = unnamed or _Curve(work, seconds, None)

    def roofline_s(self, work: Work) -> Floats:
        """Return the times of the fitted rooflines alone; (R,)."""
        return self._answers(work, lambda curve, part: curve.roofline_s(part))

    def predict_s(self, work: Work) -> Floats:
        """Predict the times of R kernels, all at once; (R,)."""
        return self._answers(work, lambda curve, part: curve.predict_s(part))

    def _answers(self, work: Work, answer: Callable[[_Curve, Work], Floats]) -> Floats:
        if work.kernels is None:
            return answer(self._others, work)
        seconds = np.empty(len(work.kernels))
        for name, rows in _by_name(work.kernels):
            curve = self._curves.get(name, self._others)
            seconds[rows] = answer(curve, work.at(rows))
        return seconds


def _by_name(names: NDArray[np.str_]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    for name in np.unique(names):
        yield str(name), names == name


class _Curve:
    """A roofline, and the trees that correct it."""

    def __init__(self, work: Work, seconds: Floats, settings: Settings | None) -> None:
        """Fit the roofline, and grow trees unless there are no settings."""
        self._rates = linear_rates(work.terms, seconds)
        self._trees: list[Any] = []
        if settings is not None:
            # Loading scikit-learn takes a second or two.
            from sklearn.ensemble import ExtraTreesRegressor

            grown = ExtraTreesRegressor(
                n_estimators=settings.trees,
                max_features=settings.max_features,
                min_samples_leaf=settings.min_samples_leaf,
                random_state=0,
                n_jobs=1,
            ).fit(work.features, np.log(seconds / self.roofline_s(work)))
            self._trees = grown.estimators_

    def roofline_s(self, work: Work) -> Floats:
        """Return the times of the fitted roofline alone; (R,)."""
        seconds: Floats = work.terms @ self._rates
        return seconds

    def predict_s(self, work: Work) -> Floats:
        """Predict the times of R kernels, all at once; (R,)."""
        seconds = self.roofline_s(work)
        if self._trees:
            rows = work.features.astype(np.float32)
            answers = np.mean([tree.predict(rows) for tree in self._trees], axis=0)
            seconds = seconds * np.exp(answers)
        return seconds
