"""``hetopt plan --again``: asks what an earlier answer was asked."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from hetopt.cli.plan_files import named, read_json
from hetopt.cli.plan_options import add_plan_options
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping


def repeat(options: argparse.Namespace) -> None:
    """Replace options that are not given by those of an earlier answer.

    Raises
    ------
    InputError
        The file is no answer that says what was asked, or no problem is named.
    """
    if options.again is not None:
        with named(options.again):
            asked = asked_by(read_json(options.again))
        given = _given(options)
        for name, value in asked.items():
            if name not in given:
                setattr(options, name, tuple(value) if name == "chunks" else value)
    if options.problem is None:
        msg = "is missing: name a problem's file, or an answer to repeat with --again"
        raise InputError(msg, field="PROBLEM")


def _given(options: argparse.Namespace) -> set[str]:
    """Return the names of the options that are on the command line."""
    command = argparse.ArgumentParser()
    add_plan_options(command)
    unset = object()
    command.set_defaults(**dict.fromkeys(vars(options), unset))
    _, *arguments = options.arguments
    values = vars(command.parse_args(arguments))
    return {name for name, value in values.items() if value is not unset}


def asked_by(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an answer says was asked; InputError if it does not say it."""
    from hetopt.base.file_record import read
    from hetopt.results.asked import Options

    asked = answer.get("asked")
    if not isinstance(asked, dict):
        msg = "does not say what was asked: expected an answer of `hetopt plan --out`"
        raise InputError(msg, field="asked")
    found: dict[str, Any] = read(Options, asked, "asked")
    return found
