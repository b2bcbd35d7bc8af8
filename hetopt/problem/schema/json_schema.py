"""The JSON Schema of a problem file, for editors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.base.faults import FLAT
from hetopt.base.schema import json_schema
from hetopt.problem.catalogue import accelerators, model_presets
from hetopt.problem.problem import SECTIONS, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

_FILE = {
    "anyOf": [
        {"type": "string", "pattern": r"\.(ya?ml|json)$"},
        {
            "type": "object",
            "properties": {"file": {"type": "string"}},
            "required": ["file"],
            "additionalProperties": False,
        },
    ],
    "description": "Another file, relative to this one, which holds the section alone "
    "or under its name.",
}
_FILE_REFERENCE = {"$ref": "#/$defs/FileReference"}


def problem_json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a problem file."""
    schema = json_schema(Problem, "hetopt problem")
    kinds = schema["$defs"]
    for kind in kinds.values():
        if flat := kind["properties"].pop(FLAT, None):
            # One that may be missing as well.
            of, *_ = flat.get("anyOf", [flat])
            part = kinds[of["$ref"].rpartition("/")[2]]
            kind["properties"] |= part["properties"]
    # No field has it.
    del kinds["Architecture"]
    schema["$defs"]["FileReference"] = _FILE
    properties = schema["properties"]
    clusters = properties["clusters"]
    clusters["items"] = _or_else(clusters["items"], _FILE_REFERENCE)
    for section in SECTIONS:
        properties[section] = _or_else(properties[section], _FILE_REFERENCE)
    properties["model"]["anyOf"].append(_name_of(model_presets()))
    cluster = schema["$defs"]["Cluster"]["properties"]
    cluster["accelerator"] = _or_else(
        cluster["accelerator"], _name_of(accelerators()), _FILE_REFERENCE
    )
    return schema


def _name_of(known: Iterable[str]) -> dict[str, Any]:
    return {"type": "string", "examples": list(known)}


def _or_else(inline: dict[str, Any], *others: dict[str, Any]) -> dict[str, Any]:
    inside = {
        key: value
        for key, value in inline.items()
        if key not in ("description", "default")
    }
    outside = {key: value for key, value in inline.items() if key not in inside}
    return {"anyOf": [inside, *others], **outside}
