"""Errors of a forest on shards of a profile that it was not trained on.

Errors are |predicted / measured - 1|, over all units and both passes. Spearman's rank
correlation is computed within each unit and pass and averaged by their numbers of
shards: over all together it would be high only because units differ in size. The repeat
noise is interquartile range over median of the repetitions of a shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.words import counted
from hetopt.cost.profiles.units import shard_key
from hetopt.cost.sources.baselines import (
    FittedRoofline,
    modelled_seconds,
    neighbour_seconds,
)
from hetopt.cost.sources.features import Shards, shards_of_rows
from hetopt.cost.sources.forest import DEFAULT_PARAMS, Forest, ForestParams
from hetopt.cost.sources.splits import (
    FOLDS,
    SPLIT_BY_SHAPE,
    SPLIT_ONE,
    SPLITS,
    splits,
)
from hetopt.errors import InputError
from hetopt.problem.catalogue import accelerators

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hetopt.cost.profiles.file import Profile, ProfileRow
    from hetopt.cost.shapes import Floats

PASSES = ("forward", "backward")
#: Least number of shards of a unit for a rank correlation.
FEWEST_RANKED = 3

FOREST, ROOFLINE, NEIGHBOUR = "forest", "roofline", "neighbour"
METHODS = (FOREST, ROOFLINE, NEIGHBOUR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Measured and predicted times of one pass of one test shard.

    Attributes
    ----------
    row
        Index into the profile's rows.
    spread_s
        Interquartile range of its repetitions; None if unknown.
    predicted_s
        Prediction by each of ``METHODS``.
    low_s, high_s
        The forest's prediction interval.
    """

    split: str
    row: int
    unit: str
    direction: str
    measured_s: float
    spread_s: float | None
    predicted_s: tuple[float, ...]
    low_s: float
    high_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Relative errors of one method on one split.

    Attributes
    ----------
    judged
        Number of test times.
    spearman
        None if no unit has enough shards to be ranked.
    """

    split: str
    method: str
    judged: int
    mape: float
    median_error: float
    p95_error: float
    spearman: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Interquartile range over median of the repetitions, over all shards."""

    median: float
    mean: float
    p95: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """All results that ``hetopt forest evaluate`` reports.

    Attributes
    ----------
    shards
        Number of rows with times; the others ran out of memory.
    roofline
        Description of the baseline's roofline.
    noise
        None if the profile has no spreads (nothing was repeated).
    interval_coverage
        Share of measurements inside the prediction interval, 80/20.
    scores
        Scores of every method on every split that the profile allows.
    unit_scores
        Scores of the forest on 80/20, for each unit and pass: ``method`` names them.
    skipped
        Splits for which the profile has too few values.
    """

    params: ForestParams
    shards: int
    roofline: str
    noise: Noise | None
    interval_coverage: float
    scores: tuple[Score, ...]
    unit_scores: tuple[Score, ...]
    judged: tuple[Judged, ...]
    skipped: tuple[str, ...]

    def score(self, split: str, method: str = FOREST) -> Score:
        """Return one score; KeyError if the split was skipped."""
        for item in self.scores:
            if (item.split, item.method) == (split, method):
                return item
        raise KeyError(split, method)


def evaluate(
    profile: Profile, params: ForestParams = DEFAULT_PARAMS, *, file: str = "profile"
) -> Evaluation:
    """Evaluate a forest and both baselines on every split.

    Parameters
    ----------
    file
        Name of the profile in error messages.

    Raises
    ------
    InputError
        The profile has too few shards to leave any out.
    """
    known = _Measured(profile)
    if len({shard_key(row) for row in known.rows}) < 2 * FOLDS:
        msg = (
            f"has {counted(len(known.rows), 'timed row')}, expected at least "
            f"{2 * FOLDS} shapes"
        )
        raise InputError(msg, file=file)
    judged: list[Judged] = []
    skipped = []
    for split in SPLITS:
        parts = list(splits(known.rows, split))
        for learn, test in parts:
            judged += known.judge(split, learn, test, params)
        if not parts:
            skipped.append(split)
    by_shape = [item for item in judged if item.split == SPLIT_BY_SHAPE]
    return Evaluation(
        params=params,
        shards=len(known.rows),
        roofline=known.roofline,
        noise=_noise(known.rows),
        interval_coverage=float(
            np.mean([item.low_s <= item.measured_s <= item.high_s for item in by_shape])
        ),
        scores=tuple(
            score_of(
                [item for item in judged if item.split == split], split, method, number
            )
            for split in SPLITS
            if split not in skipped
            for number, method in enumerate(METHODS)
        ),
        unit_scores=tuple(
            score_of(part, SPLIT_BY_SHAPE, " ".join(key), 0)
            for key, part in _by_unit(by_shape).items()
        ),
        judged=tuple(judged),
        skipped=tuple(skipped),
    )


def leave_one_out(profile: Profile) -> Score | None:
    """Return the errors on shapes that are left out of the forest one by one.

    Of more than ``MOST_LEFT_OUT`` shapes, so many are left out. None if there are none.
    """
    known = _Measured(profile)
    judged = [
        item
        for learn, test in splits(known.rows, SPLIT_ONE)
        for item in known.judge(SPLIT_ONE, learn, test, DEFAULT_PARAMS)
    ]
    return score_of(judged, SPLIT_ONE, FOREST, 0) if judged else None


class _Measured:
    """The rows of a profile that have times, and predictions from some of them."""

    def __init__(self, profile: Profile) -> None:
        rows = [row for row in profile.rows if row.status == "ok"]
        self.rows = rows
        self.units = tuple(dict.fromkeys(row.unit for row in rows))
        self._accelerator = accelerators().get(profile.header["accelerator"])
        self.roofline = (
            "one peak and one bandwidth, fitted to the rows the forest learns from"
            if self._accelerator is None
            else f"hetopt's for {self._accelerator.name}, which was not fitted to any "
            "of the rows"
        )

    def judge(
        self,
        split: str,
        learn: NDArray[np.intp],
        test: NDArray[np.intp],
        params: ForestParams,
    ) -> Iterator[Judged]:
        """Predict some rows from others; units that only occur in one are skipped."""
        known = {unit: self._of(unit, learn) for unit in self.units}
        known = {unit: rows for unit, rows in known.items() if rows}
        shards = {unit: self._shards(unit, rows) for unit, rows in known.items()}
        seconds = {unit: self._seconds(rows) for unit, rows in known.items()}
        fitted = None
        if self._accelerator is None:
            fitted = FittedRoofline(shards, seconds)
        for unit in known:
            asked = self._of(unit, test)
            if not asked:
                continue
            wanted = self._shards(unit, asked)
            forest = Forest(shards[unit], seconds[unit], params).predict(wanted)
            if fitted is not None:
                roofline = fitted.seconds(wanted)
            elif self._accelerator is not None:
                rows = [self.rows[index] for index in asked]
                roofline = modelled_seconds(unit, rows, self._accelerator)
            neighbour = neighbour_seconds(shards[unit], seconds[unit], wanted)
            measured = self._seconds(asked)
            for at, index in enumerate(asked):
                row = self.rows[index]
                spreads = (row.forward_spread_s, row.backward_spread_s)
                for pass_, direction in enumerate(PASSES):
                    yield Judged(
                        split=split,
                        row=index,
                        unit=unit,
                        direction=direction,
                        measured_s=float(measured[at, pass_]),
                        spread_s=spreads[pass_],
                        predicted_s=(
                            float(forest.seconds[at, pass_]),
                            float(roofline[at, pass_]),
                            float(neighbour[at, pass_]),
                        ),
                        low_s=float(forest.low_s[at, pass_]),
                        high_s=float(forest.high_s[at, pass_]),
                    )

    def _of(self, unit: str, indices: NDArray[np.intp]) -> list[int]:
        return [int(index) for index in indices if self.rows[index].unit == unit]

    def _shards(self, unit: str, indices: list[int]) -> Shards:
        return shards_of_rows(unit, [self.rows[index] for index in indices])

    def _seconds(self, indices: list[int]) -> Floats:
        return seconds_of([self.rows[index] for index in indices])


def seconds_of(rows: Sequence[ProfileRow]) -> Floats:
    """Return forward and backward medians of rows that have them; (R, 2)."""
    return np.array([(row.forward_s, row.backward_s) for row in rows], dtype=np.float64)


def score_of(judged: Sequence[Judged], split: str, method: str, number: int) -> Score:
    """Return the score of the method with index ``number`` in ``METHODS``."""
    measured = np.array([item.measured_s for item in judged])
    predicted = np.array([item.predicted_s[number] for item in judged])
    errors = np.abs(predicted / measured - 1)
    ranked = [
        (
            len(part),
            spearman(
                [i.measured_s for i in part], [i.predicted_s[number] for i in part]
            ),
        )
        for part in _by_unit(judged).values()
        if len(part) >= FEWEST_RANKED
    ]
    return Score(
        split=split,
        method=method,
        judged=len(judged),
        mape=float(errors.mean()),
        median_error=float(np.median(errors)),
        p95_error=float(np.percentile(errors, 95)),
        spearman=(
            float(np.average([r for _, r in ranked], weights=[n for n, _ in ranked]))
            if ranked
            else None
        ),
    )


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation; 0 if one side is constant."""
    from scipy.stats import rankdata

    ranks = np.stack([rankdata(first), rankdata(second)])
    if np.any(np.ptp(ranks, axis=1) == 0):
        return 0.0
    return float(np.corrcoef(ranks)[0, 1])


def _by_unit(judged: Sequence[Judged]) -> dict[tuple[str, str], list[Judged]]:
    found: dict[tuple[str, str], list[Judged]] = {}
    for item in judged:
        found.setdefault((item.unit, item.direction), []).append(item)
    return found


def _noise(rows: Sequence[ProfileRow]) -> Noise | None:
    shares = [
        spread / median
        for row in rows
        for spread, median in (
            (row.forward_spread_s, row.forward_s),
            (row.backward_spread_s, row.backward_s),
        )
        if spread is not None and median is not None
    ]
    if not shares:
        return None
    return Noise(
        median=float(np.median(shares)),
        mean=float(np.mean(shares)),
        p95=float(np.percentile(shares, 95)),
    )
