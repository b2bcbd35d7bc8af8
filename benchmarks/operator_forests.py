"""Write the forests of operators that ship: ``python -m benchmarks.operator_forests``.

If one is missing, hetopt fits it on its first run, which takes a second or two.

Run it after every change of ``data/operators``, or of the rates in
``data/accelerators`` of the devices measured there; after a change of features or
settings (``hetopt.cost.operators.work``), delete the files first. A file whose
digest matches the current data is kept: a new fit might break ties between splits
differently, and every figure in the documentation would change a little. A test
compares the shipped files with new fits.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.base.files import write_bytes
from hetopt.cost.operators.relatives import shipped_operators
from hetopt.cost.sources.operator_source import WITH_EXPERTS
from hetopt.problem.catalogue import FOREST_SUFFIX, accelerators

if TYPE_CHECKING:
    from hetopt.cost.forests.kept import Lesson

FOLDER = Path(__file__).resolve().parents[1] / "data" / "forests"


def lessons() -> dict[str, Lesson]:
    """Return what each forest that ships is grown from, by its file's name."""
    found = {}
    for accelerator in accelerators().values():
        shipped = shipped_operators(accelerator)
        for name in WITH_EXPERTS:
            if name in shipped:
                lesson = shipped[name].lesson
                found[lesson.stem] = lesson
    return found


def main() -> None:
    """Write missing and outdated files, and remove those that are not needed."""
    FOLDER.mkdir(exist_ok=True)
    wanted = lessons()
    for path in FOLDER.glob("*" + FOREST_SUFFIX):
        if path.name.removesuffix(FOREST_SUFFIX) not in wanted:
            path.unlink()
    for name, lesson in sorted(wanted.items()):
        samples, _ = lesson.known()
        if lesson.shipped(samples.widths) is not None:
            print(f"{name}{FOREST_SUFFIX}: as it was")
            continue
        content = lesson.content()
        write_bytes(str(FOLDER / (name + FOREST_SUFFIX)), content)
        print(f"{name}{FOREST_SUFFIX}: {len(content) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
