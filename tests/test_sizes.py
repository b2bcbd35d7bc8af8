"""Files and functions are short, or a comment above a function says why it is not."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("hetopt", "formulations", "solvers")
FOLDERS = ("hetopt", "formulations", "benchmarks", "docs", "examples", "tests")
MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 60
MOST_PARAMETERS = 8


def files(folder: str) -> Iterator[tuple[Path, list[str]]]:
    for path in (ROOT / folder).rglob("*.py"):
        yield path, path.read_text("utf-8").splitlines()


def test_files_of_the_product_are_short() -> None:
    long = [
        path
        for folder in PRODUCT
        for path, lines in files(folder)
        if len(lines) > MOST_LINES
    ]
    assert long == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_functions_are_short_or_say_why_not(folder: str) -> None:
    unexplained = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for path, lines in files(folder)
        for node in ast.walk(ast.parse("\n".join(lines)))
        if isinstance(node, ast.FunctionDef)
        and is_long(node)
        and not lines[first_line(node) - 2].lstrip().startswith("#")
    ]
    assert unexplained == []


def first_line(node: ast.FunctionDef) -> int:
    """Return the number from 1 of a function's first line, decorators included."""
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def is_long(node: ast.FunctionDef) -> bool:
    given = node.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    own = [name for name in names if name not in ("self", "cls")]
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    return lines > MOST_LINES_OF_A_FUNCTION or len(own) > MOST_PARAMETERS
