"""The operator forests against kernels that they have not seen, class by class.

Run with ``python -m benchmarks.operators``. Of vidur's rows, whole models are left out,
one at a time; of SimuMax's, all rows that share a weight's (k, n), in any layout. The
forest is compared with the roofline that it corrects, fitted to the same rows. Errors
are absolute and relative to the measured time; rows that repeat a kernel count singly.

Models may share weights: for "weights out" the shapes of the model that is left out are
left out of all other models too. The roofline in brackets is fitted to the same rows.

Two more columns show how much of the error could be removed. For "sizes out" a tenth of
the kernels is left out at a time, with all rows that repeat them, while others of the
same models and weights stay: the rest is the library's choice of kernels, which sizes
do not determine. "Repeats" compares each row with the median of the other rows of the
same kernel: the noise of the measurements.

With ``--random-forest SHARE`` random forests grow in place of extremely randomised
trees: as many trees with as many rows in a leaf, each split chosen from SHARE of the
features. Neither forest is tuned to what is left out.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import replace
from statistics import mean, median
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from hetopt.cost.operators.file import GROUP_MATMUL, MATMUL, parse_operators
from hetopt.cost.operators.forest import SETTINGS, OperatorForest
from hetopt.cost.operators.relatives import by_class
from hetopt.cost.operators.work import work_of_rows
from hetopt.problem.catalogue import operator_files

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from contextlib import AbstractContextManager

    from hetopt.cost.operators.file import OperatorRow
    from hetopt.cost.operators.relatives import Measured

#: Limit of the median error of a class of operators.
LIMIT = 0.05

#: For "sizes out", one in this many kernels is left out at a time.
_TENTHS = 10


def fold(row: OperatorRow) -> Hashable:
    """Return the key of the group that is left out together with a row."""
    if row.model is not None:
        return row.model
    if row.op in (MATMUL, GROUP_MATMUL):
        return weights(row)
    return (row.seq, row.heads, row.kv_heads, row.qk_dim)


def weights(row: OperatorRow) -> Hashable:
    """Return a multiplication's (k, n) in its forward layout."""
    sizes = {"TN": (row.k, row.n), "NN": (row.n, row.k), "NT": (row.n, row.m)}
    return sizes[row.layout or "TN"]


def kernel(row: OperatorRow) -> Hashable:
    """Return the key that all rows of one kernel share, for whichever model."""
    return replace(row, time_us=1.0, model=None)


def tenths(rows: Sequence[OperatorRow]) -> list[int]:
    """Return the tenth of each row, the same for rows that repeat a kernel."""
    kernels = list(dict.fromkeys(map(kernel, rows)))
    shuffled = np.random.default_rng(0).permutation(len(kernels)) % _TENTHS
    found = dict(zip(kernels, shuffled.tolist(), strict=True))
    return [found[kernel(row)] for row in rows]


def spread(rows: Sequence[OperatorRow]) -> list[float]:
    """Return errors of repeated rows against the median of the kernel's other rows."""
    times = defaultdict(list)
    for row in rows:
        times[kernel(row)].append(row.time_us)
    return [
        abs(median([*found[:number], *found[number + 1 :]]) / time_us - 1)
        for found in times.values()
        if len(found) > 1
        for number, time_us in enumerate(found)
    ]


def errors(
    part: Measured,
    folds: Sequence[Hashable],
    shared: Sequence[Hashable] | None = None,
) -> tuple[list[float], list[float]]:
    """Return absolute errors of the forest and of the roofline, on rows left out.

    Parameters
    ----------
    folds
        The group with which each row is left out.
    shared
        A key per row: rows with the key of a row left out are not used for the fit.
    """
    rows = part.rows
    seconds = np.array([row.time_us * 1e-6 for row in rows])
    forest: list[float] = []
    roofline: list[float] = []
    for out in dict.fromkeys(folds):
        left = np.array([other == out for other in folds])
        asked = [row for row, is_left in zip(rows, left, strict=True) if is_left]
        kept = ~left
        if shared is not None:
            pairs = zip(shared, left, strict=True)
            unknown = {weight for weight, is_left in pairs if is_left}
            kept &= np.array([other not in unknown for other in shared])
        if not kept.any():
            continue
        known = [row for row, is_kept in zip(rows, kept, strict=True) if is_kept]
        grown = OperatorForest.grown(
            work_of_rows(part.op, known, part.rates), seconds[kept], SETTINGS[part.op]
        )
        work = work_of_rows(part.op, asked, part.rates)
        forest += np.abs(grown.predict_s(work) / seconds[left] - 1).tolist()
        roofline += np.abs(grown.roofline_s(work) / seconds[left] - 1).tolist()
    return forest, roofline


def with_weights(part: Measured, folds: Sequence[Hashable]) -> str:
    """Return the errors with weights left out too; empty if no folds share any."""
    if part.op not in (MATMUL, GROUP_MATMUL):
        return ""
    shared = [weights(row) for row in part.rows]
    if len(set(zip(shared, folds, strict=True))) == len(set(shared)):
        return ""
    forest, roofline = errors(part, folds, shared)
    return f"{median(forest):.1%} ({median(roofline):.1%})"


def main(arguments: list[str] | None = None) -> None:
    """Print errors by file and class."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--random-forest", type=float, metavar="SHARE")
    share = parser.parse_args(arguments).random_forest
    with nullcontext() if share is None else random_forests(share):
        print_errors()


def random_forests(share: float) -> AbstractContextManager[object]:
    """Return a context in which operators are learnt by random forests."""

    def forest(**settings: Any) -> RandomForestRegressor:
        return RandomForestRegressor(**{**settings, "max_features": share})

    return patch("sklearn.ensemble.ExtraTreesRegressor", forest)


def print_errors() -> None:
    """Print the table."""
    print(
        "| device | operators | rows | forest median | mean | roofline median "
        "| weights out | sizes out | repeats | |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, file in operator_files().items():
        text = file.read_text("utf-8")
        parse_operators(text, name)
        for op, part in by_class(text, name).items():
            folds = [fold(row) for row in part.rows]
            forest, roofline = errors(part, folds)
            if not forest:
                continue
            found = median(forest)
            verdict = "" if found <= LIMIT else f"above {LIMIT:.0%}"
            if found > median(roofline):
                verdict += " worse than the roofline"
            known, _ = errors(part, tenths(part.rows))
            repeats = spread(part.rows)
            print(
                f"| {part.device} | {op} | {len(forest)} | {found:.1%} "
                f"| {mean(forest):.1%} | {median(roofline):.1%} "
                f"| {with_weights(part, folds)} | {median(known):.1%} "
                f"| {f'{median(repeats):.1%}' if repeats else ''} | {verdict} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
