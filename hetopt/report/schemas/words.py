"""What JSON Schemas are put together from."""

from __future__ import annotations

from typing import Any

DRAFT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
DIGEST: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def whole(least: int = 0) -> Schema:
    """Return what whole numbers from ``least`` on match."""
    return {"type": "integer", "minimum": least}


def one_of(values: tuple[str, ...]) -> Schema:
    """Return what each of these words matches."""
    return {"type": "string", "enum": list(values)}


def or_null(schema: Schema) -> Schema:
    """Return what null matches too."""
    return {"anyOf": [schema, {"type": "null"}]}


def row(items: Schema, least: int = 0) -> Schema:
    """Return what an array of at least so many of these matches."""
    return {"type": "array", "items": items, "minItems": least}


def record(required: Schema, optional: Schema | None = None) -> Schema:
    """Return what an object with these keys, and no others, matches."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


SECONDS: Schema = {"type": "number", "minimum": 0}
POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}
