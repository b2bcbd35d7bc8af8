"""Paths of problems, also by the names of those that ship with hetopt."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hetopt.base.words import suggest
from hetopt.errors import InputError
from hetopt.problem.catalogue import problem_files

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Endings of the names of problem files, and of files that their sections name.
SUFFIXES = (".yaml", ".yml", ".json")
#: Most characters of a name or path that an error shows.
_MOST_NAME = 240


def problem_path(name: str) -> str:
    """Return the path of a problem file, or of the shipped problem of this name.

    Raises
    ------
    InputError
        There is neither.
    """
    if os.path.lexists(name):
        return name
    shipped = problem_files()
    if name in shipped:
        return str(shipped[name])
    hint = suggest(name, (*_beside(name), *shipped)) or " (see `hetopt catalog`)"
    raise InputError(
        f"no such file, and no problem of this name ships with hetopt{hint}",
        file=name if len(name) <= _MOST_NAME else f"{name[:_MOST_NAME]}...",
    )


def _beside(name: str) -> Iterator[str]:
    """Yield the problem files in the folder of a file that is not there."""
    folder = os.path.dirname(name)
    try:
        names = sorted(os.listdir(folder or os.curdir))
    except (OSError, ValueError):
        return
    for each in names:
        if each.endswith(SUFFIXES):
            yield os.path.join(folder, each)
