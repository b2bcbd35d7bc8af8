"""Reads the JSON of plan files: plans, results, fronts."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hetopt.base import reading
from hetopt.errors import CheckError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator


def read_json(path: str) -> dict[str, Any]:
    """Read a file that holds one JSON object.

    Raises
    ------
    InputError
        It does not, or is a problem, whose place is before the plan's.

    Returns
    -------
    Results and fronts of the release before in today's form.
    """
    order = "expected a plan: PROBLEM stands before PLAN"
    try:
        data = reading.read_json(path, "a plan")
    except InputError as error:
        if path.endswith((".yaml", ".yml")) and error.line is not None:
            raise InputError(f"is YAML, {order}", file=path) from None
        raise
    if not isinstance(data, dict):
        raise InputError("is not a JSON object, expected a plan", file=path)
    if "clusters" in data and "training" in data:
        raise InputError(f"is a problem, {order}", file=path)
    from hetopt.results.before import renewed

    with named(path):
        return renewed(data)


@contextmanager
def named(path: str) -> Iterator[None]:
    """Add the plan's file to errors that name only a field."""
    try:
        yield
    except CheckError as error:
        findings = [f"{path}: {finding}" for finding in error.findings]
        raise CheckError(findings) from error
    except InputError as error:
        if error.file is not None:
            raise
        raise type(error)(error.message, file=path, field=error.field) from error
