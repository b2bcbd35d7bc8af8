"""``hetopt plan --again``: asks what an earlier answer was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.errors import InputError

if TYPE_CHECKING:
    import argparse

#: Options that decide what is searched, by their name in Python.
_ASKED = (
    *("problem", "objective", "budget", "min_tokens_per_s", "pareto", "top"),
    *("stability", "schedule", "blocking", "chunks", "pipelines", "relax", "launcher"),
    *("table", "time_limit", "solver", "jobs", "executor", "seed", "iterations"),
    *("exploration", "cost"),
)


def remember(command: argparse.ArgumentParser) -> None:
    """Keep the defaults of a command's options beside their values."""
    usual = {name: command.get_default(name) for name in _ASKED}
    command.set_defaults(usual=usual)


def repeat(options: argparse.Namespace) -> None:
    """Replace options that are not given by those of an earlier answer.

    Raises
    ------
    InputError
        The file is no answer that says what was asked, or no problem is named.
    """
    if options.again is not None:
        for name, value in _read(options.again).items():
            if getattr(options, name) == options.usual[name]:
                given = tuple(value) if isinstance(value, list) else value
                setattr(options, name, given)
    if options.problem is None:
        msg = "is missing: name a problem's file, or an answer to repeat with --again"
        raise InputError(msg, field="PROBLEM")


def _read(path: str) -> dict[str, Any]:
    from hetopt.cli.planned import read_json

    asked = read_json(path).get("asked")
    if not isinstance(asked, dict) or not set(asked) <= set(_ASKED):
        msg = "does not say what was asked: expected an answer of `hetopt plan --out`"
        raise InputError(msg, file=path, field="asked")
    return asked
