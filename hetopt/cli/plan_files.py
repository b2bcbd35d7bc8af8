"""Reads the JSON of plan files: plans, results, fronts."""

from __future__ import annotations

from typing import Any

from hetopt.base import reading
from hetopt.base.reading import named
from hetopt.errors import InputError


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
