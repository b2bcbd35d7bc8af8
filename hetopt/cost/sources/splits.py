"""Which shapes of a profile are left out of a forest, to judge it on them.

There are five splits, all by shape: neither a test shard nor one that coincides with it
under other degrees is in the training set.

80/20               five folds, so that every shard is tested once by a forest that was
                    trained on the other four
unseen (c, t)       each pair of degrees left out in turn
unseen hidden       each hidden size left out in turn
unseen seq_len      each sequence length left out in turn
larger batch        the largest micro-batch left out

``hetopt profile --for`` leaves one shape after the other out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.profiles.units import shard_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from hetopt.cost.profiles.file import ProfileRow

FOLDS = 5
#: Most shapes that are left out one by one: growing each forest takes 0.1 s.
MOST_LEFT_OUT = 80

SPLIT_BY_SHAPE = "80/20"
SPLIT_BATCH = "larger batch"
SPLIT_ONE = "one left out"
#: The value of a row by which rows are left out, one value after the other.
LEFT_OUT: dict[str, Callable[[ProfileRow], object]] = {
    "unseen (c, t)": lambda row: (row.cp, row.tp),
    "unseen hidden": lambda row: row.hidden,
    "unseen seq_len": lambda row: row.seq_len,
}
SPLITS = (SPLIT_BY_SHAPE, *LEFT_OUT, SPLIT_BATCH)


def splits(
    rows: Sequence[ProfileRow], split: str
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield indices of training and test rows; none if there are too few values."""
    values: Iterable[int]
    numbers: dict[object, int] = {}
    shapes = np.array(
        [numbers.setdefault(shard_key(row), len(numbers)) for row in rows]
    )
    if split == SPLIT_BY_SHAPE:
        fold = np.random.default_rng(0).permutation(len(numbers)) % FOLDS
        labels = fold[shapes]
        values = range(FOLDS)
    elif split == SPLIT_ONE:
        labels, count = shapes, len(numbers)
        most = min(count, MOST_LEFT_OUT)
        values = np.linspace(0, count - 1, most).astype(np.int64).tolist()
    elif split == SPLIT_BATCH:
        batches = np.array([row.microbatch for row in rows])
        labels = (batches == batches.max()).astype(np.int64)
        values = range(1, 1 + int(batches.min() < batches.max()))
    else:
        seen: dict[object, int] = {}
        of = LEFT_OUT[split]
        labels = np.array([seen.setdefault(of(row), len(seen)) for row in rows])
        values = range(len(seen) if len(seen) > 1 else 0)
    for value in values:
        out = labels == value
        learn = ~out & ~np.isin(shapes, shapes[out])
        if learn.any() and out.any():
            yield np.flatnonzero(learn), np.flatnonzero(out)
