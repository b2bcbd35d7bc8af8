"""Read a result or plan from unchecked data; errors name the key that is wrong."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from hetopt.base.words import counted
from hetopt.errors import InputError
from hetopt.plans.plan import CUTS_SCHEMA, MOST_PIPELINES, PLAN_SCHEMA, Plan
from hetopt.problem.training.choices import (
    RECOMPUTE_OPTIONS,
    RESHARDING,
    SCHEDULE_CHOICES,
)
from hetopt.problem.training.epsilon import written_epsilon
from hetopt.problem.training.principles import Principles
from hetopt.problem.training.training import chunks_fault

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Largest whole number that a plan or result may hold: it fits 64 bits.
MOST = 10**18


def read_plan(data: object, field: str) -> Plan:
    """Return the plan that JSON data describes.

    Raises
    ------
    InputError
        A key is missing, or its value has the wrong type; the field names it.
    """
    plan = mapping(data, field)
    choice(plan, "schema", (PLAN_SCHEMA, CUTS_SCHEMA), field)
    if (plan["schema"] == CUTS_SCHEMA) != ("cuts" in plan):
        msg = f"is {plan['schema']}, and {CUTS_SCHEMA} is for plans with cuts alone"
        raise InputError(msg, field=_join(field, "schema"))
    choice(plan, "schedule", SCHEDULE_CHOICES, field)
    if "chunks" in plan:
        whole(plan, "chunks", field)
    fault = chunks_fault(plan["schedule"], plan.get("chunks", 1))
    if fault is not None:
        raise InputError(fault, field=_join(field, "chunks"))
    written_epsilon(plan, field)
    text(plan, "problem_digest", field)
    text(plan, "table_digest", field)
    pipelines = items(plan, "pipelines", field)
    if not 1 <= len(pipelines) <= MOST_PIPELINES:
        msg = (
            f"has {counted(len(pipelines), 'pipeline')}, expected 1 to {MOST_PIPELINES}"
        )
        raise InputError(msg, field=_join(field, "pipelines"))
    for place, item in pipelines:
        pipeline = mapping(item, place)
        whole(pipeline, "microbatches", place)
        if pipeline.get("share") is not None:
            _check_share(mapping(pipeline["share"], f"{place}.share"), f"{place}.share")
        if pipeline.get("mix") is not None:
            _check_mix(mapping(pipeline["mix"], f"{place}.mix"), f"{place}.mix")
        for at, entry in items(pipeline, "stages", place):
            _check_stage(mapping(entry, at), at)
    return Plan.from_json(plan)


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


def _check_share(share: Mapping[str, Any], field: str) -> None:
    whole(share, "batch", field)
    nodes = mapping(_get(share, "nodes", field), f"{field}.nodes")
    for name in nodes:
        for place, size in items(nodes, name, f"{field}.nodes"):
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise _wrong(place, size, "a whole number from 1")


def _check_mix(mix: Mapping[str, Any], field: str) -> None:
    whole(mix, "per_microbatch", field)
    sequences = mapping(_get(mix, "sequences", field), f"{field}.sequences")
    if not sequences:
        raise InputError("is empty, expected sequences", field=f"{field}.sequences")
    for tokens in sequences:
        if not (tokens.isascii() and tokens.isdigit() and tokens[0] != "0"):
            raise _wrong(f"{field}.sequences", tokens, "a number of tokens")
        whole(sequences, tokens, f"{field}.sequences")


def _check_stage(stage: Mapping[str, Any], field: str) -> None:
    text(stage, "cluster", field)
    for key in ("first_unit", "end_unit", "warmup"):
        whole(stage, key, field, least=0)
    _check_strategy(stage, field)
    if stage.get("resharding") is not None:
        choice(stage, "resharding", RESHARDING, field)
    if stage.get("unit_strategies") is not None:
        for place, entry in items(stage, "unit_strategies", field):
            _check_strategy(mapping(entry, place), place)


def _check_strategy(data: Mapping[str, Any], field: str) -> None:
    for key in ("dp", "cp", "tp"):
        whole(data, key, field)
    devices, ranks = data["dp"] * data["cp"] * data["tp"], 1
    for key in ("ep", "etp"):
        if data.get(key) is not None:
            ranks *= whole(data, key, field)
    if devices % ranks:
        expected = f"ep * etp to divide dp * cp * tp ({devices})"
        raise _wrong(_join(field, "ep"), ranks, expected)
    choice(data, "recompute", RECOMPUTE_OPTIONS, field)
    if data.get("zero") is not None and whole(data, "zero", field, least=0) > 3:
        raise _wrong(_join(field, "zero"), data["zero"], "0, 1, 2 or 3")


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
