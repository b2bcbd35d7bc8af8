"""Scripts that complete hetopt's commands and options in a shell, made by shtab."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.solvers.registry import solver_names

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Metavars of arguments that are files, and folders.
_FILES = ("CERT", "FILE", "PLAN", "PROBLEM", "PROFILE")
_FOLDERS = ("DIR",)


def script(root: argparse.ArgumentParser, shell: str) -> str:
    """Return the script that completes a whole command line in a shell.

    Raises
    ------
    InputError
        shtab is not installed.
    """
    try:
        import shtab
    except ImportError:
        msg = "needs shtab: pip install '.[completion]' in hetopt's source"
        raise InputError(msg, field="--print-completion") from None
    for action in _actions(root):
        # shtab reads this attribute, which argparse does not declare.
        if action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar in _FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif "--solver" in action.option_strings:
            action.choices = solver_names()
    made: str = shtab.complete(root, shell)
    return made


def _actions(of: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of its commands."""
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
        else:
            yield action
