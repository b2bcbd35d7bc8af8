"""Imports run one way: among the children of a package there is no circle.

A sub-package counts as one child of its package, whatever of it is imported. Imports
within functions and for type checkers count like any others.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter

from benchmarks.reading import imported_names, modules

#: Neither imports one to its right; see docs/contributing.md.
ORDER = (
    "base",
    "problem",
    "plans",
    "schedule",
    "cost",
    "pricing",
    "results",
    "formulations",
    "check",
    "profile",
    "calibrating",
    "inventory",
    "solvers",
    "export",
    "planning",
    "replanning",
    "running",
    "whatif",
    "report",
    "comparing",
    "cli",
)


@cache
def imports() -> set[tuple[str, str]]:
    """Return which modules of hetopt import which others."""
    found = set()
    for module, path in modules().items():
        for source, name in imported_names(path):
            longer = f"{source}.{name}"
            target = longer if longer in modules() else source
            if target in modules() and target != module:
                found.add((module, target))
    return found


@cache
def children() -> dict[str, dict[str, set[str]]]:
    """Return, for every package, which of its children import which others."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for pair in imports():
        parts = [name.split(".") for name in pair]
        common = 0
        while all(common < len(part) for part in parts) and (
            parts[0][common] == parts[1][common]
        ):
            common += 1
        # What a package itself imports stands beside its children.
        one, other = ((*part, "__init__")[common] for part in parts)
        found[".".join(parts[0][:common])][one].add(other)
    return found


def test_no_circle_among_the_children_of_a_package() -> None:
    circles = []
    for package, own in children().items():
        try:
            TopologicalSorter(own).prepare()
        except CycleError as error:
            circles.append(f"{package}: {' <- '.join(error.args[1])}")
    assert circles == []


def test_imports_run_one_way() -> None:
    for one, others in children()["hetopt"].items():
        for other in others & set(ORDER):
            if one in ORDER:
                assert ORDER.index(other) < ORDER.index(one), (one, other)


def test_nothing_is_imported_twice() -> None:
    """Neither at the top nor for type checkers; functions import for themselves."""
    twice = []
    for module, path in modules().items():
        top = ast.parse(path.read_text("utf-8")).body
        checked = [each.body for each in top if isinstance(each, ast.If)]
        found = Counter(
            (module, getattr(each, "module", None), name.name, name.asname)
            for each in [*top, *(one for body in checked for one in body)]
            if isinstance(each, (ast.Import, ast.ImportFrom))
            for name in each.names
        )
        twice += [one for one, count in found.items() if count > 1]
    assert twice == []
