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

The forest is not tuned to what is left out.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from statistics import mean, median
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.forests.judging import ROOFLINE, Judged, judge, left_out, numbered
from hetopt.cost.operators.file import GROUP_MATMUL, MATMUL, parse_operators
from hetopt.cost.operators.relatives import by_class
from hetopt.problem.catalogue import operator_files

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from hetopt.cost.operators.file import OperatorRow
    from hetopt.cost.operators.relatives import Measured
    from hetopt.cost.shapes import Ints

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


def tenths(rows: Sequence[OperatorRow]) -> Ints:
    """Return the tenth of each row, the same for rows that repeat a kernel."""
    kernels = numbered(map(kernel, rows))
    shuffled = np.random.default_rng(0).permutation(kernels.max() + 1)
    return (shuffled % _TENTHS)[kernels]


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


def judged(part: Measured, folds: Ints, shared: Ints | None = None) -> Judged | None:
    """Return what forests predict for rows left out; see ``left_out``."""
    samples, seconds = part.known()
    return judge(samples, seconds, part.lesson.settings, left_out(folds, shared))


def with_weights(part: Measured, folds: Ints) -> str:
    """Return the errors with weights left out too; empty if no folds share any."""
    if part.op not in (MATMUL, GROUP_MATMUL):
        return ""
    shared = numbered(map(weights, part.rows))
    if len({*zip(shared.tolist(), folds.tolist(), strict=True)}) == len({*shared}):
        return ""
    found = judged(part, folds, shared)
    if found is None:
        return ""
    return f"{median(found.errors()):.1%} ({median(found.errors(ROOFLINE)):.1%})"


def main() -> None:
    """Print errors by file and class."""
    print(
        "| device | operators | rows | forest median | mean | roofline median "
        "| weights out | sizes out | repeats | |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, file in operator_files().items():
        text = file.read_text("utf-8")
        parse_operators(text, name)
        for op, part in by_class(text, name).items():
            folds = numbered(map(fold, part.rows))
            unseen, known = judged(part, folds), judged(part, tenths(part.rows))
            if unseen is None or known is None:
                continue
            forest, roofline = unseen.errors(), unseen.errors(ROOFLINE)
            verdict = "" if median(forest) <= LIMIT else f"above {LIMIT:.0%}"
            if median(forest) > median(roofline):
                verdict += " worse than the roofline"
            repeats = spread(part.rows)
            print(
                f"| {part.device} | {op} | {len(forest)} | {median(forest):.1%} "
                f"| {mean(forest):.1%} | {median(roofline):.1%} "
                f"| {with_weights(part, folds)} | {median(known.errors()):.1%} "
                f"| {f'{median(repeats):.1%}' if repeats else ''} | {verdict} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
