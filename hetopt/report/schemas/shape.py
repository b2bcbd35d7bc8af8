"""Refuse data that has not the shape that a JSON Schema of ``hetopt schema`` says.

Of JSON Schema it knows what ``hetopt.report.schemas`` uses.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetopt.base.words import describe, suggest
from hetopt.errors import InputError
from hetopt.report.schemas.words import DIGEST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetopt.report.schemas.words import Schema

#: Words for a type in errors, and whether a value has it.
_TYPES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "object": ("an object", lambda value: isinstance(value, dict)),
    "array": ("a list", lambda value: isinstance(value, list)),
    "string": ("a string", lambda value: isinstance(value, str)),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "null": ("null", lambda value: value is None),
    "integer": ("a whole number", lambda value: _is_number(value, int)),
    "number": (
        "a number",
        lambda value: _is_number(value, int | float) and math.isfinite(value),
    ),
}


def ensure_shape(data: object, schema: Schema) -> None:
    """Raise if data has another shape, or a key that the schema does not know.

    Raises
    ------
    InputError
        The field names the first key or value that is wrong.
    """
    _Shape(schema.get("$defs", {})).ensure(data, schema, "")


@dataclass(frozen=True, slots=True)
class _Shape:
    """Checks data against schemas, some of which are named, as they are recursive."""

    named: Mapping[str, Schema]

    def ensure(self, data: object, schema: Schema, field: str) -> None:
        """Raise InputError; ``field`` is where the data is in its file."""
        if "$ref" in schema:
            schema = self.named[schema["$ref"].rpartition("/")[2]]
        if "anyOf" in schema:
            schema = _option(data, schema, field)
        kind = schema.get("type")
        if not _fits(data, schema):
            raise InputError(
                f"is {describe(data)}, expected {_expected(schema)}",
                field=field or None,
            )
        if kind == "object":
            assert isinstance(data, dict)
            self._ensure_object(data, schema, field)
        if kind == "array":
            assert isinstance(data, list)
            self._ensure_list(data, schema, field)

    def _ensure_object(self, data: dict[str, Any], schema: Schema, field: str) -> None:
        known = schema.get("properties", {})
        others = schema.get("additionalProperties")
        names = schema.get("propertyNames", {}).get("enum")
        for key, value in data.items():
            place = _join(field, key)
            if key in known:
                self.ensure(value, known[key], place)
                continue
            if others is False or (names is not None and key not in names):
                raise _unknown(key, list(known) or names, place)
            if isinstance(others, dict):
                self.ensure(value, others, place)
        for key in schema.get("required", ()):
            if key not in data:
                raise InputError("is missing", field=_join(field, key))

    def _ensure_list(self, data: list[Any], schema: Schema, field: str) -> None:
        least, most = schema.get("minItems", 0), schema.get("maxItems", math.inf)
        if not least <= len(data) <= most:
            expected = f"at least {least}" if len(data) < least else f"at most {most}"
            msg = f"has {len(data)} entries, expected {expected}"
            raise InputError(msg, field=field or None)
        for index, item in enumerate(data):
            self.ensure(item, schema["items"], _join(field, index))


def _option(data: object, schema: Schema, field: str) -> Schema:
    """Return the option of ``anyOf`` that has the data's type."""
    options: list[Schema] = schema["anyOf"]
    for option in options:
        if "type" in option and _TYPES[option["type"]][1](data):
            return option
    expected = " or ".join(map(_expected, options))
    raise InputError(f"is {describe(data)}, expected {expected}", field=field or None)


def _unknown(key: str, known: list[str], place: str) -> InputError:
    return InputError(
        f"is not a known key{suggest(key, known)}, expected one of {', '.join(known)}",
        field=place,
    )


def _fits(value: Any, schema: Schema) -> bool:
    """Whether a value is as a schema says, what it contains aside."""
    kind = schema.get("type")
    if kind is not None and not _TYPES[kind][1](value):
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if kind in ("integer", "number"):
        least, most = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
        above: float = schema.get("exclusiveMinimum", -math.inf)
        return bool(least <= value <= most and value > above)
    return "pattern" not in schema or re.search(schema["pattern"], value) is not None


def _expected(schema: Schema) -> str:
    """Return what a schema permits, in words."""
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return " or ".join(schema["enum"])
    if schema.get("pattern") == DIGEST["pattern"]:
        return "64 hexadecimal digits"
    words = _TYPES[schema["type"]][0]
    if "maximum" in schema:
        return f"{words} from {schema['minimum']} to {schema['maximum']}"
    if "minimum" in schema:
        return f"{words} from {schema['minimum']}"
    if "exclusiveMinimum" in schema:
        return f"{words} above {schema['exclusiveMinimum']}"
    return words


def _is_number(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _join(field: str, key: str | int) -> str:
    return f"{field}.{key}" if field else str(key)
