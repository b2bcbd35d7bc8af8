"""Compares an answer with what it says was asked."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from hetopt.cli.again import asked_by
from hetopt.cli.asking import search_of
from hetopt.cli.plan_options import add_plan_options
from hetopt.errors import CheckError, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.planning.asked import Search


def ensure_as_asked(problem: str, data: Mapping[str, Any]) -> None:
    """Raise CheckError unless an answer is one to what it says was asked."""
    from hetopt.planning.as_asked import asked_findings

    if data.get("asked") is None:
        return
    try:
        findings = list(asked_findings(_search_of(problem, data), data))
    except InputError as error:
        findings = [f"asked: {error}"]
    if findings:
        raise CheckError(findings)


def _search_of(problem: str, answer: Mapping[str, Any]) -> Search:
    """Return the search of a problem that an answer says it is of.

    Raises
    ------
    InputError
        It does not say that, or says what cannot be asked.
    """
    command = argparse.ArgumentParser()
    add_plan_options(command)
    options = command.parse_args([])
    for name, value in asked_by(answer).items():
        setattr(options, name, tuple(value) if name == "chunks" else value)
    options.problem = problem
    return search_of(options)
