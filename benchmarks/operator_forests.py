"""Write the forests of operators that ship: ``python -m benchmarks.operator_forests``.

If one is missing, hetopt fits it on its first run, which takes a second or two.

Run it after every change of ``data/operators``, or of the rates in
``data/accelerators`` of the devices measured there; after a change of the features or
settings of forests (``hetopt.cost.operators``), delete the files first. A file whose
digest matches the current data is kept: a new fit might break ties between splits
differently, and every figure in the documentation would change a little. A test
compares the shipped files with new fits.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.base.files import write_bytes
from hetopt.cost.operators.forest import Widths
from hetopt.cost.operators.relatives import shipped_operators
from hetopt.cost.operators.shipped import content_of, file_stem, shipped_forest
from hetopt.cost.operators.work import work_of_rows
from hetopt.cost.sources.operator_source import WITH_EXPERTS
from hetopt.problem.catalogue import FOREST_SUFFIX, accelerators

if TYPE_CHECKING:
    from hetopt.cost.operators.relatives import Measured

FOLDER = Path(__file__).resolve().parents[1] / "data" / "forests"


def measured_operators() -> dict[str, Measured]:
    """Return the measured operators of each accelerator, by its forest's file."""
    found = {}
    for accelerator in accelerators().values():
        shipped = shipped_operators(accelerator)
        for name in WITH_EXPERTS:
            if name in shipped:
                found[file_stem(shipped[name])] = shipped[name]
    return found


def main() -> None:
    """Write missing and outdated files, and remove those that are not needed."""
    FOLDER.mkdir(exist_ok=True)
    wanted = measured_operators()
    for path in FOLDER.glob("*" + FOREST_SUFFIX):
        if path.name.removesuffix(FOREST_SUFFIX) not in wanted:
            path.unlink()
    for name, part in sorted(wanted.items()):
        widths = Widths.of(work_of_rows(part.op, part.rows, part.rates))
        if shipped_forest(part, widths) is not None:
            print(f"{name}{FOREST_SUFFIX}: as it was")
            continue
        content = content_of(part)
        write_bytes(str(FOLDER / (name + FOREST_SUFFIX)), content)
        print(f"{name}{FOREST_SUFFIX}: {len(content) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
