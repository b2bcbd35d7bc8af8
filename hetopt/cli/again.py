"""The options that an earlier answer says were asked: ``hetopt plan --again``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from hetopt.base.reading import named
from hetopt.cli.flags import OF_PLAN
from hetopt.cli.parsing import Parser
from hetopt.cli.plan_files import read_json
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def repeat(options: argparse.Namespace) -> None:
    """Replace options that are not given by those of an earlier answer.

    Raises
    ------
    InputError
        The file is no answer that says what was asked, or no problem is named.
    """
    if options.again is not None:
        with named(options.again):
            _fill(options, read_json(options.again), _given(options))
    if options.problem is None:
        msg = "is missing: name a problem's file, or an answer to repeat with --again"
        raise InputError(msg, field="PROBLEM")


def options_of(answer: Mapping[str, Any], problem: str) -> argparse.Namespace:
    """Return the options that an answer says were given, but for its problem's name.

    Raises
    ------
    InputError
        It does not say what was asked.
    """
    options = _parser().parse_args([])
    _fill(options, answer)
    options.problem, options.takes = problem, OF_PLAN
    # How many workers there were says nothing of the answer.
    options.jobs = None
    return options


def _parser() -> Parser:
    command = Parser()
    for each in OF_PLAN:
        each.add(command)
    return command


def _given(options: argparse.Namespace) -> set[str]:
    """Return the names of the options that are on the command line."""
    command, unset = _parser(), object()
    command.set_defaults(**dict.fromkeys(vars(options), unset))
    _, *arguments = options.arguments
    values = vars(command.parse_args(arguments))
    return {name for name, value in values.items() if value is not unset}


def _fill(
    options: argparse.Namespace, answer: Mapping[str, Any], given: Collection[str] = ()
) -> None:
    """Set the options that an answer says were asked, and that are not given."""
    from hetopt.base.file_record import read
    from hetopt.results.asked import Options

    asked = answer.get("asked")
    if not isinstance(asked, dict):
        msg = "does not say what was asked: expected an answer of `hetopt plan --out`"
        raise InputError(msg, field="asked")
    for name, value in read(Options, asked, "asked").items():
        if name not in given:
            setattr(options, name, tuple(value) if name == "chunks" else value)
