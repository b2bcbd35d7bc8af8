"""Errors of forests on shapes of a profile that they were not grown from.

There are five splits, all by shape: neither a test shard nor one that coincides with it
under other degrees is learnt from.

80/20               five folds, so that every shard is tested once by a forest that was
                    grown from the other four
unseen (c, t)       each pair of degrees left out in turn
unseen hidden       each hidden size left out in turn
unseen seq_len      each sequence length left out in turn
larger batch        the largest micro-batch left out

``hetopt profile --for`` leaves one shape after the other out. Errors are over all units
and both passes. The repeat noise is interquartile range over median of the repetitions
of a shard.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.words import counted
from hetopt.cost.forests.judging import (
    FOREST,
    METHODS,
    Judged,
    Score,
    judge,
    left_out,
    numbered,
    score_of,
)
from hetopt.cost.profiles.units import shard_key
from hetopt.cost.sources.features import SETTINGS, known_samples
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hetopt.cost.profiles.file import Profile, ProfileRow
    from hetopt.cost.shapes import Ints

FOLDS = 5
#: Most shapes that are left out one by one: growing each forest takes 0.1 s.
MOST_LEFT_OUT = 80

SPLIT_BY_SHAPE = "80/20"
SPLIT_BATCH = "larger batch"
SPLIT_ONE = "one left out"
#: The values of a row by which rows are left out, one after the other.
LEFT_OUT = {
    "unseen (c, t)": ("cp", "tp"),
    "unseen hidden": ("hidden",),
    "unseen seq_len": ("seq_len",),
}
SPLITS = (SPLIT_BY_SHAPE, *LEFT_OUT, SPLIT_BATCH)


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
    rows
        R rows with times; the others ran out of memory.
    noise
        None if the profile has no spreads (nothing was repeated).
    judged
        By split: sample i is pass i // R of row i % R, named by its unit and pass.
        Splits for which the profile has too few values are missing.
    """

    rows: tuple[ProfileRow, ...]
    noise: Noise | None
    judged: Mapping[str, Judged]

    def score(self, split: str, method: str = FOREST) -> Score:
        """Return one score; KeyError if the split was skipped."""
        return score_of(self.judged[split], split, method)

    @property
    def scores(self) -> tuple[Score, ...]:
        """Scores of every method on every split that the profile allows."""
        return tuple(
            self.score(split, method) for split in self.judged for method in METHODS
        )

    @property
    def unit_scores(self) -> tuple[Score, ...]:
        """Scores of the forest on 80/20, by unit and pass, which ``method`` names."""
        by_shape = self.judged[SPLIT_BY_SHAPE]
        return tuple(
            replace(score_of(by_shape.of(name), SPLIT_BY_SHAPE), method=name)
            for name in dict.fromkeys(by_shape.names.tolist())
        )

    @property
    def skipped(self) -> tuple[str, ...]:
        """Splits for which the profile has too few values."""
        return tuple(split for split in SPLITS if split not in self.judged)


def evaluate(
    profile: Profile,
    *,
    file: str = "profile",
    told: Callable[[str], None] = lambda split: None,
) -> Evaluation:
    """Evaluate forests and both baselines on every split.

    Parameters
    ----------
    file
        Name of the profile in error messages.
    told
        Told each split before forests are judged on it.

    Raises
    ------
    InputError
        The profile has too few shards to leave any out.
    """
    rows = _timed(profile)
    if len({shard_key(row) for row in rows}) < 2 * FOLDS:
        msg = (
            f"has {counted(len(rows), 'timed row')}, expected at least {2 * FOLDS} "
            "shapes"
        )
        raise InputError(msg, file=file)
    judged = {}
    for split in SPLITS:
        told(split)
        part = _judged(rows, split)
        if part is not None:
            judged[split] = part
    return Evaluation(rows=tuple(rows), noise=_noise(rows), judged=judged)


def leave_one_out(profile: Profile) -> Score | None:
    """Return the errors on shapes that are left out of the forest one by one.

    Of more than ``MOST_LEFT_OUT`` shapes, so many are left out. None if there are none.
    """
    judged = _judged(_timed(profile), SPLIT_ONE)
    return None if judged is None else score_of(judged, SPLIT_ONE)


def groups_of(rows: Sequence[ProfileRow], split: str) -> Ints:
    """Return the group with which each row is left out, -1 if it never is; (R,)."""
    shapes = numbered(map(shard_key, rows))
    count = int(shapes.max(initial=-1)) + 1
    if split == SPLIT_BY_SHAPE:
        return (np.random.default_rng(0).permutation(count) % FOLDS)[shapes]
    if split == SPLIT_ONE:
        most = np.linspace(0, count - 1, min(count, MOST_LEFT_OUT)).astype(np.int64)
        return np.where(np.isin(shapes, most), shapes, -1)
    if split == SPLIT_BATCH:
        batches = np.array([row.microbatch for row in rows])
        return np.where(batches == batches.max(), 0, -1)
    return numbered(tuple(getattr(row, k) for k in LEFT_OUT[split]) for row in rows)


def _timed(profile: Profile) -> list[ProfileRow]:
    return [row for row in profile.rows if row.status == "ok"]


def _judged(rows: Sequence[ProfileRow], split: str) -> Judged | None:
    """Predict rows from others of the same unit; None if the split leaves none."""
    groups, shapes = groups_of(rows, split), numbered(map(shard_key, rows))
    units = np.array([row.unit for row in rows])
    found = []
    for unit in dict.fromkeys(row.unit for row in rows):
        own = np.flatnonzero(units == unit)
        samples, seconds = known_samples(
            unit, [row for row in rows if row.unit == unit]
        )
        parts = left_out(np.tile(groups[own], 2), np.tile(shapes[own], 2))
        judged = judge(samples, seconds, SETTINGS, parts)
        if judged is not None:
            index = np.concatenate([own, own + len(rows)])[judged.index]
            names = np.char.add(f"{unit} ", judged.names)
            found.append(replace(judged, index=index, names=names))
    return Judged.joined(found) if found else None


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
