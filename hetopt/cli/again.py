"""``hetopt plan --again``: asks what an earlier answer was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.cli.plan_files import named, read_json
from hetopt.errors import InputError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping


def remember(command: argparse.ArgumentParser) -> None:
    """Keep the defaults of a command's options beside their values."""
    usual = vars(command.parse_args([]))
    command.set_defaults(usual=usual)


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
        for name, value in asked.items():
            if getattr(options, name) == options.usual[name]:
                given = tuple(value) if isinstance(value, list) else value
                setattr(options, name, given)
    if options.problem is None:
        msg = "is missing: name a problem's file, or an answer to repeat with --again"
        raise InputError(msg, field="PROBLEM")


def asked_by(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an answer says was asked; InputError if it does not say it."""
    from hetopt.report.schemas.claims import ASKED
    from hetopt.report.schemas.shape import ensure_shape
    from hetopt.report.schemas.words import record

    asked = answer.get("asked")
    if not isinstance(asked, dict):
        msg = "does not say what was asked: expected an answer of `hetopt plan --out`"
        raise InputError(msg, field="asked")
    ensure_shape({"asked": asked}, record({"asked": ASKED}))
    return asked
