"""The operator forests against kernels that they have not seen, class by class.

Run with ``python -m benchmarks.operators``. Of vidur's rows whole models are left out,
one at a time; of SimuMax's all rows that share a weight's (k, n), in any layout. Beside
the forest stands the roofline that it corrects, fitted to the same rows. Errors are
absolute and relative to the measured time; rows that repeat a kernel count one by one.
"""

from __future__ import annotations

from statistics import mean, median
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.operators.file import GROUP_MATMUL, MATMUL, parse_operators
from hetopt.cost.operators.forest import SETTINGS, OperatorForest
from hetopt.cost.operators.relatives import by_class
from hetopt.cost.operators.work import work_of_rows
from hetopt.problem.catalogue import operator_files

if TYPE_CHECKING:
    from collections.abc import Hashable

    from hetopt.cost.operators.file import OperatorRow
    from hetopt.cost.operators.relatives import Measured

#: Median error of a class of operators.
LIMIT = 0.05


def fold(row: OperatorRow) -> Hashable:
    """Return what is left out together with a row."""
    if row.model is not None:
        return row.model
    if row.op in (MATMUL, GROUP_MATMUL):
        sizes = {
            "TN": (row.k, row.n),
            "NN": (row.n, row.k),
            "NT": (row.n, row.m),
        }
        return sizes[row.layout or "TN"]
    return (row.seq, row.heads, row.kv_heads, row.qk_dim)


def errors(part: Measured) -> tuple[list[float], list[float]]:
    """Return absolute errors of the forest and of the roofline, on rows left out."""
    rows = part.rows
    seconds = np.array([row.time_us * 1e-6 for row in rows])
    folds = [fold(row) for row in rows]
    forest: list[float] = []
    roofline: list[float] = []
    for out in dict.fromkeys(folds):
        left = np.array([other == out for other in folds])
        if left.all():
            continue
        known = [row for row, is_left in zip(rows, left, strict=True) if not is_left]
        asked = [row for row, is_left in zip(rows, left, strict=True) if is_left]
        grown = OperatorForest.grown(
            work_of_rows(part.op, known, part.rates), seconds[~left], SETTINGS[part.op]
        )
        work = work_of_rows(part.op, asked, part.rates)
        forest += np.abs(grown.predict_s(work) / seconds[left] - 1).tolist()
        roofline += np.abs(grown.roofline_s(work) / seconds[left] - 1).tolist()
    return forest, roofline


def main() -> None:
    """Print errors by file and class."""
    print("| device | operators | rows | forest median | mean | roofline median | |")
    print("|---|---|---|---|---|---|---|")
    for name, file in operator_files().items():
        text = file.read_text("utf-8")
        parse_operators(text, name)
        for op, part in by_class(text, name).items():
            forest, roofline = errors(part)
            if not forest:
                continue
            found = median(forest)
            verdict = "" if found <= LIMIT else f"above {LIMIT:.0%}"
            if found > median(roofline):
                verdict += " worse than the roofline"
            print(
                f"| {part.device} | {op} | {len(forest)} | {found:.1%} "
                f"| {mean(forest):.1%} | {median(roofline):.1%} | {verdict} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
