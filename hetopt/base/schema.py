"""JSON Schemas of records, with what their docstrings say."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from hetopt.base.faults import FLAT

if TYPE_CHECKING:
    from collections.abc import Mapping

DRAFT = "https://json-schema.org/draft/2020-12/schema"


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return what reads, and describes, values of a type."""
    return TypeAdapter(kind)


def json_schema(kind: Any, title: str = "") -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file with a record.

    Parameters
    ----------
    title
        What the file is; the first paragraph of the record's docstring describes it.
    """
    found = adapter(kind).json_schema(schema_generator=_Described)
    return {"$schema": DRAFT, "title": title, **found} if title else found


class _Described(GenerateJsonSchema):
    """Descriptions from docstrings; no titles, which only repeat names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def dataclass_schema(self, schema: Any) -> Any:
        made, kind = super().dataclass_schema(schema), schema["cls"]
        names = {
            name: info.alias or name for name, info in kind.__pydantic_fields__.items()
        }
        said = descriptions(kind)
        _describe(made, kind, {names[name]: said[name] for name in names.keys() & said})
        needed = {*made.pop("required", ())} - {*getattr(kind, "elsewhere", ()), FLAT}
        if needed:
            made["required"] = [key for key in made["properties"] if key in needed]
        return made

    def typed_dict_schema(self, schema: Any) -> dict[str, Any]:
        made, kind = super().typed_dict_schema(schema), schema["cls"]
        said = getattr(kind, "described_keys", lambda: descriptions(kind))
        _describe(made, kind, said())
        return made


def _describe(made: dict[str, Any], kind: type, said: Mapping[str, str]) -> None:
    del made["title"]
    made["description"] = _joined((kind.__doc__ or "").split("\n\n")[0])
    for name, part in made["properties"].items():
        if name in said:
            part.setdefault("description", said[name])


@cache
def descriptions(cls: type) -> Mapping[str, str]:
    """Return what a class's docstring says of its attributes, by their names."""
    found: dict[str, str] = {}
    # A TypedDict has no parents but those that it was declared with.
    declared = [
        each for each in getattr(cls, "__orig_bases__", ()) if type(each) is type(cls)
    ]
    for base in (*declared, *reversed(cls.__mro__[:-1])):
        for name, value in vars(base).items():
            if isinstance(value, property):
                found[name] = _joined((value.__doc__ or "").split("\n\n")[0])
        _, _, section = (base.__doc__ or "").partition("    ----------\n")
        names: list[str] = []
        lines: dict[str, list[str]] = {}
        for line in section.splitlines():
            if line.startswith("    ---"):
                break
            if line.startswith(" " * 8):
                for name in names:
                    lines.setdefault(name, []).append(line)
            elif line.strip():
                names = [name.strip() for name in line.split(",")]
        found |= {name: _joined("\n".join(each)) for name, each in lines.items()}
    return found


def _joined(text: str) -> str:
    """Return prose on one line, in the words of JSON."""
    words = " ".join(text.split())
    return words.replace("``", "`").replace("None", "null")
