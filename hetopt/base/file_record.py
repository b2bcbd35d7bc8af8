"""Records in files: the fields of a frozen dataclass are the keys of a JSON object.

What is written, what is read back, and the JSON Schema follow from the fields alone:

- a field's type, with its range, is what its key may have (``Count``, ``Seconds``);
- a field that has a default is left out of files where it has that value, and is never
  null there, unless it is marked ``ALWAYS``;
- a field marked ``INLINE`` is a record whose keys stand among those of the outer one;
- a field marked ``ASIDE`` is not part of the file;
- a field marked ``LATER`` is always written, but older files do not have it;
- a field marked with ``Named`` has another key than its name;
- ``SCHEMA``, if there is one, is the first key, and tells kinds of files apart;
- ``KEYS``, if given, are the keys in the order of the file, properties among them,
  which are written but not read back;
- descriptions are those of the docstring's section ``Attributes``.

Parts that are plain mappings in Python, too, are ``TypedDict``s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Self,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from hetopt.base.file_types import ALWAYS, ASIDE, INLINE, LATER, Named
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import GetCoreSchemaHandler, TypeAdapter
    from pydantic_core import CoreSchema

DRAFT = "https://json-schema.org/draft/2020-12/schema"


class FileRecord:
    """Base of frozen dataclasses that are JSON objects in files."""

    __slots__ = ()

    SCHEMA: ClassVar[str] = ""
    KEYS: ClassVar[tuple[str, ...]] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON data."""
        data: dict[str, Any] = {"schema": self.SCHEMA} if self.SCHEMA else {}
        for key in keys_of(type(self)):
            value: Any = self
            for name in key.path:
                value = None if value is None else getattr(value, name)
            if key.always or value != key.default:
                data[key.name] = plain(value)
        return data

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Read what ``to_json`` wrote.

        Raises
        ------
        InputError
            A key is missing or not known, or its value is none of its field.
        """
        found: Self = read(cls, data)
        return found

    @classmethod
    def of_keys(cls, values: dict[str, Any]) -> Self:
        """Make a record from the values of its keys, each checked by itself."""
        given: dict[str, Any] = {}
        inside: dict[str, dict[str, Any]] = {}
        for key in keys_of(cls):
            if key.name not in values or key.derived:
                continue
            first, *below = key.path
            if below:
                inside.setdefault(first, {})[key.name] = values[key.name]
            else:
                given[first] = values[key.name]
        for name, each in inside.items():
            made = _inlined(cls, name).of_keys
            there = any(value is not None for value in each.values())
            given[name] = made(each) if there else None
        return cls(**given)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        own = {}
        if cls.SCHEMA:
            kind = core_schema.literal_schema([cls.SCHEMA])
            own["schema"] = core_schema.typed_dict_field(kind, required=True)
        for key in keys_of(cls):
            own[key.name] = core_schema.typed_dict_field(
                handler.generate_schema(key.hint),
                required=key.required,
            )
        return core_schema.no_info_after_validator_function(
            cls._of_file,
            core_schema.typed_dict_schema(
                own,
                cls=cls,
                extra_behavior="forbid",
                config=core_schema.CoreConfig(strict=True, allow_inf_nan=False),
            ),
        )

    @classmethod
    def _of_file(cls, values: dict[str, Any]) -> Self:
        try:
            return cls.of_keys(values)
        except InputError as error:
            # pydantic passes on errors of values; ``fault`` looks for their cause.
            raise ValueError(error.message) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """A key of a record's file.

    Attributes
    ----------
    path
        Names of the attributes that lead to its value.
    of
        The record that has the last of them.
    always
        Whether it is always written; else it is left out where it has its default.
    required
        Whether a file without it is refused.
    derived
        Whether it follows from the others.
    """

    name: str
    path: tuple[str, ...]
    of: type[FileRecord]
    hint: Any
    always: bool = True
    required: bool
    default: Any = None
    derived: bool = False


def keys_of(cls: type[FileRecord]) -> tuple[_Key, ...]:
    """Return the keys of a record, in the order of its file."""
    kind: Any = cls
    found: tuple[_Key, ...] = _ordered(kind)
    return found


@cache
def _ordered(cls: type[FileRecord]) -> tuple[_Key, ...]:
    found = {key.name: key for key in _declared(cls)}
    for name in cls.KEYS:
        if name not in found:
            hint = get_type_hints(getattr(cls, name).fget, include_extras=True)
            found[name] = _Key(
                name=name,
                path=(name,),
                of=cls,
                hint=hint["return"],
                required=LATER not in getattr(hint["return"], "__metadata__", ()),
                derived=True,
            )
    return tuple(found[name] for name in cls.KEYS or found)


def _declared(cls: type[FileRecord]) -> Iterator[_Key]:
    """Yield the keys that follow from fields, in the order of the fields."""
    hints = get_type_hints(cls, include_extras=True)
    for field in fields(cls):  # type: ignore[arg-type]
        hint = hints[field.name]
        marks = getattr(hint, "__metadata__", ())
        if ASIDE in marks:
            continue
        if INLINE in marks:
            nullable = type(None) in get_args(get_args(hint)[0])
            for key in keys_of(_inlined(cls, field.name)):
                yield _Key(
                    name=key.name,
                    path=(field.name, *key.path),
                    of=key.of,
                    hint=key.hint | None if nullable else key.hint,
                    always=key.always,
                    required=key.required,
                    default=key.default,
                )
            continue
        default: Any = field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        always = default is MISSING or not {ALWAYS, LATER}.isdisjoint(marks)
        yield _Key(
            name=next((e.name for e in marks if isinstance(e, Named)), field.name),
            path=(field.name,),
            of=cls,
            hint=hint if always or default is not None else _without_none(hint),
            always=always,
            required=always and LATER not in marks,
            default=None if default is MISSING else default,
        )


def _inlined(cls: type[FileRecord], name: str) -> type[FileRecord]:
    """Return the record whose keys stand among those of another."""
    hint = get_args(get_type_hints(cls, include_extras=True)[name])[0]
    found: type[FileRecord] = _without_none(hint)
    return found


def _without_none(hint: Any) -> Any:
    """Return a type that does not permit None."""
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        return Annotated[(_without_none(inner), *marks)]
    if get_origin(hint) in (Union, UnionType):
        return reduce(or_, (e for e in get_args(hint) if e is not type(None)))
    return hint


def plain(value: Any) -> Any:
    """Return a value of a record as plain JSON data."""
    if isinstance(value, FileRecord):
        return value.to_json()
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    return value


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def read(kind: Any, data: object, field: str = "") -> Any:
    """Return JSON data as a record, or as the ``TypedDict`` of a part.

    Parameters
    ----------
    field
        Where the data is in its file.

    Raises
    ------
    InputError
        A key is missing or not known, or its value is none of its field.
    """
    from pydantic import ValidationError

    from hetopt.base.faults import fault

    try:
        return _adapter(kind).validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        found = fault(error, data, lambda path: _known(kind, path))
        if not field:
            raise found from None
        place = f"{field}.{found.field}" if found.field else field
        raise InputError(found.message, field=place) from None


def _known(kind: Any, path: tuple[str | int, ...]) -> list[str]:
    """Return the keys of an object in a file."""
    schema = json_schema(kind)
    waiting = [(schema, path)]
    while waiting:
        part, left = waiting.pop(0)
        if "$ref" in part:
            part = schema["$defs"][part["$ref"].rpartition("/")[2]]
        for joined in ("anyOf", "oneOf"):
            waiting += [(each, left) for each in part.get(joined, ())]
        known = part.get("properties", {})
        if not left and known:
            return list(known)
        if not left:
            continue
        inside = part.get("items") if isinstance(left[0], int) else known.get(left[0])
        if inside is None:
            inside = part.get("additionalProperties")
        if isinstance(inside, dict):
            waiting.append((inside, left[1:]))
    return []


def json_schema(kind: Any, title: str = "") -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file with a record.

    Parameters
    ----------
    title
        What the file is; the first paragraph of the record's docstring describes it.
    """
    from pydantic.json_schema import GenerateJsonSchema

    class Generated(GenerateJsonSchema):
        """Descriptions from docstrings; no titles, which only repeat names."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

        def typed_dict_schema(self, schema: Any) -> dict[str, Any]:
            found, cls = super().typed_dict_schema(schema), schema["cls"]
            del found["title"]
            found["description"] = _joined((cls.__doc__ or "").split("\n\n")[0])
            for name, text in _said(cls).items():
                found["properties"][name].setdefault("description", text)
            return found

    found = _adapter(kind).json_schema(schema_generator=Generated)
    return {"$schema": DRAFT, "title": title, **found} if title else found


def _said(cls: type) -> Mapping[str, str]:
    """Return descriptions by key."""
    if not issubclass(cls, FileRecord):
        said = descriptions(cls)
        return {name: said[name] for name in cls.__annotations__ if name in said}
    found = {key.name: descriptions(key.of).get(key.path[-1]) for key in keys_of(cls)}
    return {name: text for name, text in found.items() if text is not None}


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
