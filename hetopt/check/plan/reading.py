"""Read a result or plan from unchecked data; errors name the key that is wrong."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from hetopt.base.file_record import read
from hetopt.base.words import counted
from hetopt.errors import InputError
from hetopt.plans.plan import MOST_PIPELINES, Plan
from hetopt.problem.training.principles import Principles
from hetopt.problem.training.training import chunks_fault, written_epsilon

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Largest whole number that a plan or result may hold: it fits 64 bits.
MOST = 10**18


def read_plan(data: object, field: str) -> Plan:
    """Return the plan that JSON data describes.

    Raises
    ------
    InputError
        A key is missing, or its value is none of its field; the field names it.
    """
    given = mapping(data, field)
    plan: Plan = read(Plan, given, field)
    _ensure_small(given, field)
    fault = chunks_fault(plan.schedule, plan.chunks)
    if fault is not None:
        raise InputError(fault, field=_join(field, "chunks"))
    written_epsilon(given, field)
    pipelines = _join(field, "pipelines")
    if len(plan.pipelines) > MOST_PIPELINES:
        found = counted(len(plan.pipelines), "pipeline")
        msg = f"has {found}, expected 1 to {MOST_PIPELINES}"
        raise InputError(msg, field=pipelines)
    for number, pipeline in enumerate(plan.pipelines):
        if pipeline.mix is not None and min(pipeline.mix.sequences, default=0) < 1:
            msg = "is not of sequences by their tokens, at least 1"
            raise InputError(msg, field=f"{pipelines}.{number}.mix.sequences")
    return plan


def _ensure_small(value: object, field: str) -> None:
    """Raise InputError if a number does not fit 64 bits."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            _ensure_small(each, _join(field, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            _ensure_small(each, f"{field}.{number}")
    elif isinstance(value, int) and value > MOST:
        raise _wrong(field, value, f"at most {MOST}")


def read_principles(data: Mapping[str, Any]) -> Principles:
    """Return the principles that plans have to keep: all but those in ``relaxed``."""
    names = []
    for place, name in items(data, "relaxed", ""):
        if not isinstance(name, str):
            raise _wrong(place, name, "a string")
        names.append(name)
    try:
        return Principles.relaxing(names)
    except ValueError as error:
        raise InputError(str(error), field="relaxed") from error


# --- one value ----------------------------------------------------------------------


def mapping(value: object, field: str) -> Mapping[str, Any]:
    """Return an object of named values; raise InputError if it is none."""
    if not isinstance(value, Mapping):
        raise _wrong(field, value, "an object")
    return value


def items(
    data: Mapping[str, Any], key: str, field: str
) -> Sequence[tuple[str, object]]:
    """Return the entries of a list, each with its place."""
    value = _get(data, key, field)
    place = _join(field, key)
    if not isinstance(value, list):
        raise _wrong(place, value, "a list")
    return [(f"{place}.{index}", item) for index, item in enumerate(value)]


def text(data: Mapping[str, Any], key: str, field: str) -> str:
    """Return a string."""
    value = _get(data, key, field)
    if not isinstance(value, str):
        raise _wrong(_join(field, key), value, "a string")
    return value


def choice(
    data: Mapping[str, Any], key: str, allowed: Sequence[str], field: str
) -> str:
    """Return one of some strings."""
    value = _get(data, key, field)
    if value not in allowed:
        raise _wrong(_join(field, key), value, " or ".join(allowed))
    return str(value)


def whole(data: Mapping[str, Any], key: str, field: str, *, least: int = 1) -> int:
    """Return a whole number, at least ``least``."""
    value = _get(data, key, field)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise _wrong(_join(field, key), value, f"a whole number from {least}")
    if value > MOST:
        raise _wrong(_join(field, key), value, f"at most {MOST}")
    return value


def number(data: Mapping[str, Any], key: str, field: str) -> float | None:
    """Return a finite number, 0 or more, or None."""
    value = _get(data, key, field)
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value < 0
    ):
        raise _wrong(_join(field, key), value, "a number, 0 or more, or null")
    return float(value)


def choices(literal: Any) -> tuple[str, ...]:
    """Return the strings a Literal permits."""
    return get_args(literal)


def _get(data: Mapping[str, Any], key: str, field: str) -> Any:
    if key not in data:
        raise InputError("is missing", field=_join(field, key))
    return data[key]


def _join(field: str, key: str) -> str:
    return f"{field}.{key}" if field else key


def _wrong(field: str, value: object, expected: str) -> InputError:
    # Values may be long or deeply nested: only the beginning is shown.
    shown = reprlib.repr(value)
    if len(shown) > 40:
        shown = shown[:37] + "..."
    return InputError(f"is {shown}, expected {expected}", field=field or None)
