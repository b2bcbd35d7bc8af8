"""A forest per class of operators: it predicts the log of time over roofline time.

Roofline time is a linear cost model of compute, traffic, waves and starts (``Work``).
Its rates are fitted to the training rows by relative errors. Extremely randomised trees
predict a correction, the average of corrections of similar rows; far from all rows it
is about as good as the roofline.

Every element-wise kernel that rows name has its own roofline and trees. All others are
predicted from the rows without a name. If there are none, they have the roofline fitted
to all rows and no trees, since its corrections would be those of other kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from hetopt.cost.linear_rates import LOG_DECIMALS, linear_rates
from hetopt.cost.operators.file import (
    GROUP_MATMUL,
    MATMUL,
    MEMORY,
    SDP_BACKWARD,
    SDP_FORWARD,
)
from hetopt.cost.operators.trees import Settings, Trees, grow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from hetopt.cost.operators.work import Work
    from hetopt.cost.shapes import Floats


#: Attention cores have few rows and need all features at every split. Grouped
#: multiplications were measured for few weight shapes, which small leaves overfit.
SETTINGS = {
    MATMUL: Settings(trees=100, max_features=0.5, min_samples_leaf=1),
    GROUP_MATMUL: Settings(trees=100, max_features=0.5, min_samples_leaf=20),
    SDP_FORWARD: Settings(trees=60, max_features=1.0, min_samples_leaf=1),
    SDP_BACKWARD: Settings(trees=60, max_features=1.0, min_samples_leaf=1),
    MEMORY: Settings(trees=60, max_features=0.5, min_samples_leaf=1),
}


class Widths(NamedTuple):
    """Number of terms in a class's rooflines, and of features of its trees."""

    terms: int
    features: int

    @classmethod
    def of(cls, work: Work) -> Self:
        """Return the widths of the kernels' work."""
        return cls(work.terms.shape[1], work.features.shape[1])


class OperatorForest:
    """Predictor of the kernels of one class on one device."""

    def __init__(self, curves: Mapping[str, Curve]) -> None:
        """Set the curve of each kernel; the one named "" is for all others."""
        self._curves = curves

    @classmethod
    def grown(cls, work: Work, seconds: Floats, settings: Settings) -> Self:
        """Fit rooflines, and grow trees.

        Parameters
        ----------
        seconds
            Measured times; (R,), R at least 1.
        settings
            Those of the class in ``SETTINGS``.
        """
        if work.kernels is None:
            return cls({"": Curve.fitted(work, seconds, settings)})
        curves = {
            name: Curve.fitted(work.at(rows), seconds[rows], settings)
            for name, rows in _by_name(work.kernels)
        }
        if "" not in curves:
            curves[""] = Curve.fitted(work, seconds, None)
        return cls(curves)

    @classmethod
    def kept(cls, arrays: Mapping[str, NDArray[Any]], widths: Widths) -> Self:
        """Return the forest saved as ``arrays``; ValueError if they are invalid.

        Parameters
        ----------
        widths
            Those of the kernels to predict.
        """
        names = [str(name) for name in arrays.get("names", ())]
        if "" not in names:
            msg = "no curve answers for other kernels"
            raise ValueError(msg)
        return cls(
            {name: Curve.kept(arrays, f"{i}.", widths) for i, name in enumerate(names)}
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the forest as arrays by name."""
        found: dict[str, NDArray[Any]] = {"names": np.array(list(self._curves))}
        for i, curve in enumerate(self._curves.values()):
            found |= curve.arrays(f"{i}.")
        return found

    def roofline_s(self, work: Work) -> Floats:
        """Return the times of the fitted rooflines, without trees; (R,)."""
        return self._answers(work, lambda curve, part: curve.roofline_s(part))

    def predict_s(self, work: Work) -> Floats:
        """Predict the times of R kernels, all at once; (R,)."""
        return self._answers(work, lambda curve, part: curve.predict_s(part))

    def _answers(self, work: Work, answer: Callable[[Curve, Work], Floats]) -> Floats:
        others = self._curves[""]
        if work.kernels is None:
            return answer(others, work)
        seconds = np.empty(len(work.kernels))
        for name, rows in _by_name(work.kernels):
            curve = self._curves.get(name, others)
            seconds[rows] = answer(curve, work.at(rows))
        return seconds


def _by_name(names: NDArray[np.str_]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    for name in np.unique(names):
        yield str(name), names == name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """A roofline, and the trees that correct it; None for no correction.

    Attributes
    ----------
    rates
        Seconds per unit of each of the roofline's terms; (T,).
    """

    rates: Floats
    trees: Trees | None

    @classmethod
    def fitted(cls, work: Work, seconds: Floats, settings: Settings | None) -> Self:
        """Fit the roofline, and grow trees unless there are no settings."""
        roofline = cls(rates=linear_rates(work.terms, seconds), trees=None)
        if settings is None:
            return roofline
        corrections = np.log(seconds / roofline.roofline_s(work)).round(LOG_DECIMALS)
        return replace(roofline, trees=grow(work.features, corrections, settings))

    @classmethod
    def kept(
        cls, arrays: Mapping[str, NDArray[Any]], prefix: str, widths: Widths
    ) -> Self:
        """Return the curve saved as ``arrays``; ValueError if they are invalid."""
        rates = arrays.get(prefix + "rates", np.empty(0))
        if rates.shape != (widths.terms,) or not (rates >= 0).all():
            msg = "expected rates of a roofline"
            raise ValueError(msg)
        trees = None
        if prefix + "nodes" in arrays:
            trees = Trees.kept(arrays, prefix, width=widths.features)
        return cls(rates=rates, trees=trees)

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the curve as arrays, whose names begin with ``prefix``."""
        found = {} if self.trees is None else self.trees.arrays(prefix)
        return {prefix + "rates": self.rates, **found}

    def roofline_s(self, work: Work) -> Floats:
        """Return the times of the fitted roofline, without trees; (R,)."""
        seconds: Floats = work.terms @ self.rates
        return seconds

    def predict_s(self, work: Work) -> Floats:
        """Predict the times of R kernels, all at once; (R,)."""
        seconds = self.roofline_s(work)
        if self.trees is not None:
            seconds = seconds * np.exp(self.trees.answers(work.features))
        return seconds
