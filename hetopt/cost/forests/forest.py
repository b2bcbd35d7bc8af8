"""A forest per class of kernels, or per unit of a profile, for times not measured.

It predicts the logarithm of time over roofline time. Roofline time is a linear cost
model (``Samples.terms``), whose rates, each at least 0, are fitted to the measured
times by relative errors. Extremely randomised trees predict a correction, the average
of corrections of similar samples; far from all of them it is about as good as the
roofline. Targets without a model of cost cannot leave the range of the measured times.

Every name (a pass of a unit, an element-wise kernel) has its own roofline and trees.
Kernels of other names are predicted from the samples without a name. If there are none,
they have the roofline fitted to all samples and no trees, since its corrections would
be those of other kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hetopt.cost.forests.trees import Settings, Trees, grow
from hetopt.cost.linear_rates import LOG_DECIMALS, linear_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from hetopt.cost.shapes import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """R kernels of one class, or passes of the shards of one unit.

    Attributes
    ----------
    terms
        Terms of their linear cost model, 0 or more; (R, T).
    features
        What trees split them by; (R, F).
    names
        Names of their curves, empty if unknown; (R,).
    """

    terms: Floats
    features: Floats
    names: NDArray[np.str_]

    def at(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Samples:
        """Return some samples, by a mask of shape (R,) or by their numbers."""
        return Samples(
            terms=self.terms[rows], features=self.features[rows], names=self.names[rows]
        )

    @classmethod
    def joined(cls, parts: Iterable[Samples]) -> Samples:
        """Concatenate samples of one class or unit."""
        terms, features, names = zip(
            *((part.terms, part.features, part.names) for part in parts), strict=True
        )
        return cls(
            terms=np.concatenate(terms),
            features=np.concatenate(features),
            names=np.concatenate(names),
        )

    @property
    def widths(self) -> tuple[int, int]:
        """Numbers of terms and of features."""
        return self.terms.shape[1], self.features.shape[1]

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.names)

    def by_name(self) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Yield each name, and which samples have it; (R,)."""
        for name in np.unique(self.names):
            yield str(name), self.names == name


class Forest:
    """Predictor of the times of one class of kernels, or unit, on one device."""

    def __init__(self, curves: Mapping[str, Curve]) -> None:
        """Set the curve of each name; the one named "" is for all others."""
        self._curves = curves

    @classmethod
    def grown(cls, samples: Samples, seconds: Floats, settings: Settings) -> Self:
        """Fit rooflines, and grow trees.

        Parameters
        ----------
        seconds
            Measured times; (R,), R at least 1.
        """
        curves = {
            name: Curve.fitted(samples.at(rows), seconds[rows], settings)
            for name, rows in samples.by_name()
        }
        if "" not in curves:
            curves[""] = Curve.fitted(samples, seconds, None)
        return cls(curves)

    @classmethod
    def kept(cls, arrays: Mapping[str, NDArray[Any]], widths: tuple[int, int]) -> Self:
        """Return the forest saved as ``arrays``; ValueError if they are invalid.

        Parameters
        ----------
        widths
            Those of the samples to predict.
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

    def roofline_s(self, samples: Samples) -> Floats:
        """Return the times of the fitted rooflines, without trees; (R,)."""
        return self._answers(samples, lambda curve, part: curve.roofline_s(part))

    def predict_s(self, samples: Samples) -> Floats:
        """Predict the times of R samples, all at once; (R,)."""
        return self._answers(samples, Curve.predict_s)

    def _answers(
        self, samples: Samples, answer: Callable[[Curve, Samples], Floats]
    ) -> Floats:
        seconds = np.empty(len(samples))
        for name, rows in samples.by_name():
            curve = self._curves.get(name, self._curves[""])
            seconds[rows] = answer(curve, samples.at(rows))
        return seconds


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
    def fitted(
        cls, samples: Samples, seconds: Floats, settings: Settings | None
    ) -> Self:
        """Fit the roofline, and grow trees unless there are no settings."""
        roofline = cls(rates=linear_rates(samples.terms, seconds), trees=None)
        if settings is None:
            return roofline
        ratios = np.log(seconds / roofline.roofline_s(samples)).round(LOG_DECIMALS)
        return replace(roofline, trees=grow(samples.features, ratios, settings))

    @classmethod
    def kept(
        cls, arrays: Mapping[str, NDArray[Any]], prefix: str, widths: tuple[int, int]
    ) -> Self:
        """Return the curve saved as ``arrays``; ValueError if they are invalid."""
        terms, features = widths
        rates = arrays.get(prefix + "rates", np.empty(0))
        if rates.shape != (terms,) or not (rates >= 0).all():
            msg = "expected rates of a roofline"
            raise ValueError(msg)
        trees = None
        if prefix + "nodes" in arrays:
            trees = Trees.kept(arrays, prefix, width=features)
        return cls(rates=rates, trees=trees)

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the curve as arrays, whose names begin with ``prefix``."""
        found = {} if self.trees is None else self.trees.arrays(prefix)
        return {prefix + "rates": self.rates, **found}

    def roofline_s(self, samples: Samples) -> Floats:
        """Return the times of the fitted roofline, without trees; (R,)."""
        seconds: Floats = samples.terms @ self.rates
        return seconds

    def predict_s(self, samples: Samples) -> Floats:
        """Predict the times of R samples, all at once; see ``Forest``; (R,)."""
        seconds = self.roofline_s(samples)
        if self.trees is not None:
            ratios = self.trees.answers(samples.features)
            seconds = seconds * np.exp(ratios)
        return seconds
