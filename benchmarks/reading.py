"""How much of hetopt one must read to change one family of files.

    python -m benchmarks.reading [FAMILY...]

Prints for every family the lines of its own files, the lines of the files that they
import directly, and the sum; then the lines of all product code. A name that a module
only re-exports counts for the file that defines it.
"""

from __future__ import annotations

import argparse
import ast
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
#: Folders with product code -> the packages as which they are imported.
PACKAGES = {
    "hetopt": "hetopt",
    "formulations": "hetopt.formulations",
    "solvers": "hetopt.solvers",
    "data": "hetopt.data",
}
#: Family -> glob patterns of its own files.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "mcts": ("solvers/mcts/**/*.py",),
    "simulated": ("solvers/simulated/**/*.py",),
    "dp": ("solvers/dp/**/*.py",),
    "heuristics": ("solvers/heuristics/**/*.py",),
    "cp_sat": ("formulations/cp_sat/**/*.py",),
    "FlagScale": ("hetopt/export/flagscale/**/*.py",),
}


def main(arguments: list[str] | None = None) -> int:
    """Print the lines of each family and of all product code; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "families", nargs="*", metavar="FAMILY", help=f"of {', '.join(FAMILIES)}"
    )
    asked = parser.parse_args(arguments).families or list(FAMILIES)
    for name in asked:
        if name not in FAMILIES:
            parser.error(f"no family {name!r}, expected one of {', '.join(FAMILIES)}")
    print(f"{'family':12} {'files':>5} {'own':>7} {'imports':>8} {'sum':>7}")
    for name in asked:
        own = own_files(name)
        counts = lines(own), lines(imported_files(own))
        print(f"{name:12} {len(own):5} {counts[0]:7,} {counts[1]:8,} {sum(counts):7,}")
    print(f"{'product':12} {len(modules()):5} {lines(set(modules().values())):7,}")
    return 0


def own_files(family: str) -> set[Path]:
    """Return the files of a family."""
    return {path for pattern in FAMILIES[family] for path in ROOT.glob(pattern)}


def imported_files(own: set[Path]) -> set[Path]:
    """Return the product files from which some files import, excluding themselves."""
    found = {target for path in own for target in map(defining, imported_names(path))}
    return {path for path in found if path is not None} - own


def lines(paths: set[Path]) -> int:
    """Return the lines of some files."""
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


@cache
def modules() -> Mapping[str, Path]:
    """Return the product's modules by dotted name."""
    found = {}
    for folder, package in PACKAGES.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *parts))
            found[name.removesuffix(".__init__")] = path
    return found


def imported_names(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield module and name of every import; None for the name in ``import MODULE``."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ImportFrom):
            module = ".".join(filter(None, (_above(path, node.level), node.module)))
            for alias in node.names:
                yield module, alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, None


def _above(path: Path, level: int) -> str:
    """Return the package from which a relative import starts; empty if absolute."""
    if not level:
        return ""
    folder = path.parents[level - 1].relative_to(ROOT)
    return ".".join((PACKAGES[folder.parts[0]], *folder.parts[1:]))


def defining(wanted: tuple[str, str | None]) -> Path | None:
    """Return the product file that defines a name; None if no product file does."""
    module, name = wanted
    if name is not None and f"{module}.{name}" in modules():
        return modules()[f"{module}.{name}"]
    path = modules().get(module)
    if path is None or name is None:
        return path
    passed_on = _passed_on(path).get(name)
    return (passed_on and defining(passed_on)) or path


@cache
def _passed_on(path: Path) -> dict[str, tuple[str, str]]:
    """Return the imports of a module: local name -> module and name of origin."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


if __name__ == "__main__":
    sys.exit(main())
