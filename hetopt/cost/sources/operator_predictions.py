"""Seconds of kernels from measured ones, kept in a cache."""

from __future__ import annotations

from contextlib import suppress
from functools import cache as remembered
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.operators import work
from hetopt.cost.operators.forest import SETTINGS, OperatorForest, Widths
from hetopt.cost.operators.shipped import grown, shipped_forest
from hetopt.cost.shapes import distinct_rows
from hetopt.cost.sources import prediction_cache
from hetopt.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.cost.operators.relatives import Measured
    from hetopt.cost.operators.work import Work
    from hetopt.cost.shapes import Floats, Ints


def predicted_s(
    part: Measured,
    asked: list[Work],
    cache: Path | None,
    alike: tuple[Ints, Ints] | None = None,
) -> list[Floats]:
    """Return the seconds of kernels, from the cache if possible.

    Parameters
    ----------
    part
        The measured operators of the kernels' class.
    cache
        Folder of cached predictions; the user's cache by default.
    alike
        Distinct rows, and for each row the index of its distinct row; None if all
        rows are distinct.
    """
    if alike is not None:
        first, where = alike
        known = predicted_s(part, [each.at(first) for each in asked], cache)
        return [seconds[where] for seconds in known]
    if not asked or not len(asked[0].traffic_s):
        return [np.empty(0) for _ in asked]
    # Shards that differ only in experts' degrees often have equal kernels.
    different = [distinct_rows(each.columns) for each in asked]
    whole = work.joined(
        each.at(first) for each, (first, _) in zip(asked, different, strict=True)
    )
    folder = cache or prediction_cache.cache_folder()
    key = _digest(["operators", repr(part)], whole)
    sizes = {part.op: len(whole.traffic_s)}
    found = prediction_cache.load(folder, key, sizes, columns=1)
    if found is None:
        forest = _forest(part, folder, Widths.of(whole))
        found = {part.op: forest.predict_s(whole)[:, None]}
        prediction_cache.store(folder, key, found)
    ends = np.cumsum([len(first) for first, _ in different])
    seconds = np.split(found[part.op][:, 0], ends[:-1])
    return [each[where] for each, (_, where) in zip(seconds, different, strict=True)]


@remembered
def _forest(part: Measured, folder: Path, widths: Widths) -> OperatorForest:
    """Return a forest: the shipped one, a cached one, or one grown now; all equal."""
    forest = shipped_forest(part, widths)
    if forest is not None:
        return forest
    known = work.work_of_rows(part.op, part.rows, part.rates)
    seconds = np.array([row.time_us * 1e-6 for row in part.rows])
    words = ["operator forest of splits", repr(SETTINGS[part.op])]
    key = _digest(words, known, seconds.tobytes())
    kept = prediction_cache.load_arrays(folder, key)
    if kept is not None:
        with suppress(ValueError):
            return OperatorForest.kept(kept, widths)
    forest = grown(part)
    prediction_cache.store_arrays(folder, key, forest.arrays())
    return forest


def _digest(words: list[str], kernels: Work, *more: bytes) -> str:
    """Return the cache key of a result that depends on these, and on libraries."""
    known = [*words, "hetopt " + __version__, *prediction_cache.versions()]
    return prediction_cache.digest(
        "\n".join(known).encode(),
        kernels.terms.tobytes(),
        kernels.features.tobytes(),
        b"" if kernels.kernels is None else kernels.kernels.tobytes(),
        *more,
    )
