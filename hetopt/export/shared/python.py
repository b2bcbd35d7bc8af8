"""Reads Python programs without running them."""

from __future__ import annotations

import ast
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hetopt.base.reading import MOST_DIGITS, read_text
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def parse_program(path: Path) -> ast.Module:
    """Return the statements of a program.

    Raises
    ------
    InputError
        It is not Python, or has a number that is too long to be one of a job.
    """
    with followed(str(path)):
        tree = ast.parse(read_text(path, "a Python program"))
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=int() as number) if abs(number) >= 10**MOST_DIGITS:
                msg = f"has a number of more than {MOST_DIGITS} digits"
                raise InputError(msg, file=str(path), line=node.lineno)
    return tree


@contextmanager
def followed(file: str) -> Iterator[None]:
    """Raise InputError for a program that is not Python, or nested too deeply."""
    try:
        yield
    except RecursionError as error:
        msg = "cannot be read as Python: it is nested too deeply"
        raise InputError(msg, file=file) from error
    except (SyntaxError, ValueError, MemoryError) as error:
        msg = f"cannot be read as Python: {error}"
        raise InputError(msg.partition("\n")[0], file=file) from error
