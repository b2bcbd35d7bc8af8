"""Building blocks of JSON Schemas."""

from __future__ import annotations

from typing import Any

DRAFT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
DIGEST: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def whole(least: int = 0) -> Schema:
    """Return the schema of whole numbers of at least ``least``."""
    return {"type": "integer", "minimum": least}


def one_of(values: tuple[str, ...]) -> Schema:
    """Return the schema of one of these words."""
    return {"type": "string", "enum": list(values)}


def or_null(schema: Schema) -> Schema:
    """Return a schema that also permits null."""
    return {"anyOf": [schema, {"type": "null"}]}


def row(items: Schema, least: int = 0) -> Schema:
    """Return the schema of an array with at least ``least`` of these items."""
    return {"type": "array", "items": items, "minItems": least}


def record(required: Schema, optional: Schema | None = None) -> Schema:
    """Return the schema of an object with these keys and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def described(schema: Schema, text: str) -> Schema:
    """Return a schema with a sentence on what it is the schema of."""
    return {**schema, "description": text}


def by_name(values: Schema, text: str, names: tuple[str, ...] | None = None) -> Schema:
    """Return the schema of an object with such values under names of the user's.

    Parameters
    ----------
    names
        The only names permitted; None: any.
    """
    permitted = {} if names is None else {"propertyNames": {"enum": list(names)}}
    return {
        "type": "object",
        "description": text,
        **permitted,
        "additionalProperties": values,
    }


def document(
    title: str,
    text: str,
    required: Schema,
    optional: Schema | None = None,
    *,
    defs: Schema | None = None,
) -> Schema:
    """Return the schema of a file: a title, what it is, and its keys.

    Parameters
    ----------
    defs
        Schemas by name, to which those of keys refer as ``#/$defs/NAME``.
    """
    head = {"$schema": DRAFT, "title": title, "description": text}
    named = {} if defs is None else {"$defs": defs}
    return {**head, **record(required, optional), **named}


NOT_NEGATIVE: Schema = {"type": "number", "minimum": 0}
SECONDS = NOT_NEGATIVE
POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}
EPSILON: Schema = {
    **POSITIVE,
    "description": "HAPT's epsilon, that h-1f1b has; older files have 0.01 without it.",
}
