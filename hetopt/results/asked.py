"""What an answer was asked: options of ``hetopt plan`` as plain JSON data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from annotated_types import MinLen
from typing_extensions import TypedDict

from hetopt.base.fields import Count, NotNegative, Positive, Whole
from hetopt.base.file_record import CONFIG, As


class Options(TypedDict, total=False):
    """The options of ``hetopt plan`` that were not the usual ones.

    ``hetopt plan --again`` asks the same.
    """

    __pydantic_config__ = CONFIG  # type: ignore[misc]

    problem: str
    objective: str
    pareto: bool
    chunks: Annotated[list[Count], MinLen(1)]
    relax: str
    table: str
    time_limit: Positive
    solver: str
    budget: Positive
    min_tokens_per_s: Positive
    schedule: str
    pipelines: Count
    launcher: str
    top: Count
    stability: bool
    jobs: Count
    executor: str
    seed: Whole
    exploration: NotNegative
    iterations: Count
    cost: str


Asked: TypeAlias = Annotated[Mapping[str, Any], As(Options)]

#: Options whose flag is not their name in Python.
_FLAGS = {"launcher": "--for"}
#: What is no option, or is named where the command is shown.
_APART = ("problem", "table")


def arguments(asked: Mapping[str, Any]) -> list[str]:
    """Return the options on the command line."""
    found = []
    for name, value in asked.items():
        if name in _APART:
            continue
        found.append(_FLAGS.get(name, f"--{name.replace('_', '-')}"))
        if isinstance(value, list):
            found.append(",".join(map(str, value)))
        elif value is not True:
            found.append(str(value))
    return found
