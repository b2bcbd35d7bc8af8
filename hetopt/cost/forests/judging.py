"""Errors of a forest on samples that it was not grown from.

Samples are left out group by group; those that repeat one that is left out are not
learnt from either. A forest is compared with two baselines from the same samples: the
roofline that it corrects, and that roofline with the correction of the nearest sample.
Errors are |predicted / measured - 1|.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from hetopt.cost.forests.forest import Forest, Samples
from hetopt.cost.shapes import Floats, Ints

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from hetopt.cost.forests.trees import Settings

FOREST, ROOFLINE, NEIGHBOUR = METHODS = ("forest", "roofline", "neighbour")

#: Distance of two names; features are logarithms, and far smaller.
_APART = 1e3

#: Least number of samples of a name for a rank correlation.
FEWEST_RANKED = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """Measured and predicted times of N samples that were left out.

    Attributes
    ----------
    index
        Which samples they are; (N,).
    names
        What each is ranked with; (N,).
    measured_s
        (N,).
    predicted_s
        By each of ``METHODS``; (3, N).
    """

    index: Ints
    names: NDArray[np.str_]
    measured_s: Floats
    predicted_s: Floats

    @classmethod
    def joined(cls, parts: Sequence[Judged]) -> Self:
        """Concatenate what was judged; at least one part."""
        return cls(
            index=np.concatenate([part.index for part in parts]),
            names=np.concatenate([part.names for part in parts]),
            measured_s=np.concatenate([part.measured_s for part in parts]),
            predicted_s=np.concatenate([part.predicted_s for part in parts], axis=1),
        )

    def of(self, name: str) -> Judged:
        """Return the samples of one name."""
        own = self.names == name
        return Judged(
            index=self.index[own],
            names=self.names[own],
            measured_s=self.measured_s[own],
            predicted_s=self.predicted_s[:, own],
        )

    def errors(self, method: str = FOREST) -> Floats:
        """Return the absolute errors of a method; (N,)."""
        predicted = self.predicted_s[METHODS.index(method)]
        errors: Floats = np.abs(predicted / self.measured_s - 1)
        return errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Relative errors of one method on one split.

    Attributes
    ----------
    judged
        Number of test times.
    spearman
        Rank correlation within each name, averaged by their numbers of samples: over
        all together it would be high only because names differ in size. None if no
        name has enough samples to be ranked.
    """

    split: str
    method: str
    judged: int
    mape: float
    median_error: float
    p95_error: float
    spearman: float | None


def numbered(values: Iterable[Hashable]) -> Ints:
    """Return a number for each value, equal ones for equal values; (R,)."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values])


def left_out(groups: Ints, repeats: Ints | None = None) -> Iterator[tuple[Ints, Ints]]:
    """Yield which of R samples to learn from and which to test, group by group.

    Parameters
    ----------
    groups
        Group with which each is left out; never if it is negative; (R,).
    repeats
        Samples with equal numbers repeat each other: those that repeat one that is left
        out are in neither part; (R,). None if they may be learnt from.
    """
    for group in dict.fromkeys(groups[groups >= 0].tolist()):
        out = groups == group
        learn = ~out if repeats is None else ~out & ~np.isin(repeats, repeats[out])
        if learn.any():
            yield np.flatnonzero(learn), np.flatnonzero(out)


def judge(
    samples: Samples,
    seconds: Floats,
    settings: Settings,
    parts: Iterable[tuple[Ints, Ints]],
) -> Judged | None:
    """Predict samples from others; None without parts.

    Parameters
    ----------
    seconds
        Measured times; (R,).
    parts
        Samples to learn from and to test; see ``left_out``.
    """
    found = []
    for learn, test in parts:
        known, asked = samples.at(learn), samples.at(test)
        forest = Forest.grown(known, seconds[learn], settings)
        roofline_s = forest.roofline_s(asked)
        ratios = seconds[learn] / forest.roofline_s(known)
        predicted = (
            forest.predict_s(asked),
            roofline_s,
            roofline_s * ratios[_nearest(known, asked)],
        )
        found.append(
            Judged(
                index=test,
                names=asked.names,
                measured_s=seconds[test],
                predicted_s=np.stack(predicted),
            )
        )
    return Judged.joined(found) if found else None


def _nearest(known: Samples, asked: Samples) -> Ints:
    """Return which known sample has the nearest features, of the same name if any."""
    from scipy.spatial import KDTree

    names = np.unique(known.names)
    own, wanted = (
        np.column_stack([part.features, _APART * np.searchsorted(names, part.names)])
        for part in (known, asked)
    )
    nearest: Ints = KDTree(own).query(wanted)[1]
    return nearest


def score_of(judged: Judged, split: str, method: str = FOREST) -> Score:
    """Return the score of a method on a split."""
    errors = judged.errors(method)
    predicted = judged.predicted_s[METHODS.index(method)]
    ranked = []
    for name in np.unique(judged.names):
        own = judged.names == name
        if own.sum() >= FEWEST_RANKED:
            pair = judged.measured_s[own], predicted[own]
            ranked.append((int(own.sum()), spearman(*pair)))
    return Score(
        split=split,
        method=method,
        judged=len(errors),
        mape=float(errors.mean()),
        median_error=float(np.median(errors)),
        p95_error=float(np.percentile(errors, 95)),
        spearman=(
            float(np.average([r for _, r in ranked], weights=[n for n, _ in ranked]))
            if ranked
            else None
        ),
    )


def spearman(first: Floats, second: Floats) -> float:
    """Return Spearman's rank correlation; 0 if one side is constant."""
    from scipy.stats import rankdata

    ranks = np.stack([rankdata(first), rankdata(second)])
    if np.any(np.ptp(ranks, axis=1) == 0):
        return 0.0
    return float(np.corrcoef(ranks)[0, 1])
