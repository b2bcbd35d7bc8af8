"""Building blocks of JSON Schemas."""

from __future__ import annotations

from typing import Any

from hetopt.base.schema import DRAFT

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
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


def by_name(values: Schema, text: str) -> Schema:
    """Return the schema of an object with such values under names of the user's."""
    return {"type": "object", "description": text, "additionalProperties": values}


def document(
    title: str, text: str, required: Schema, optional: Schema | None = None
) -> Schema:
    """Return the schema of a file: a title, what it is, and its keys."""
    head = {"$schema": DRAFT, "title": title, "description": text}
    return {**head, **record(required, optional)}


POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}
EPSILON: Schema = {
    **POSITIVE,
    "description": "HAPT's epsilon, that h-1f1b has; older files have 0.01 without it.",
}
