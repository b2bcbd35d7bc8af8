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

Parts that are plain mappings in Python, too, are ``TypedDict``s. In programs the values
of fields are not checked: searches make strategies by the million.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum
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

from pydantic import ValidationError
from pydantic_core import core_schema

from hetopt.base.faults import Fault, Path, faults, first_error
from hetopt.base.interruption import held
from hetopt.base.schema import adapter, descriptions, json_schema
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

#: Of every object: no other keys, no infinite numbers, no text for a number.
CONFIG: Any = {"extra": "forbid", "strict": True, "allow_inf_nan": False}


class Mark(Enum):
    """What ``Annotated`` says of a field, beside its type."""

    ALWAYS = "always"
    ASIDE = "aside"
    INLINE = "inline"
    LATER = "later"


ALWAYS, ASIDE, INLINE, LATER = Mark


@dataclass(frozen=True)
class Named:
    """The key of a field, where it is not the field's name."""

    name: str


@dataclass(frozen=True)
class As:
    """A part that is a mapping in Python, and in files this ``TypedDict``."""

    kind: Any

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return handler.generate_schema(self.kind)


class FileRecord:
    """Base of frozen dataclasses that are JSON objects in files."""

    __slots__ = ()

    SCHEMA: ClassVar[str] = ""
    #: Schemas of other files that are read as this record, too.
    FURTHER: ClassVar[tuple[str, ...]] = ()
    KEYS: ClassVar[tuple[str, ...]] = ()

    @property
    def schema(self) -> str:
        """The schema of the record's own file."""
        return self.SCHEMA

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON data."""
        data: dict[str, Any] = {"schema": self.schema} if self.SCHEMA else {}
        for key in keys_of(type(self)):
            value: Any = self
            for name in key.path:
                value = None if value is None else getattr(value, name)
            # Arrays, which have no default but None, are not compared.
            if key.always or (
                value is not None if key.default is None else value != key.default
            ):
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
    def described_keys(cls) -> Mapping[str, str]:
        """Return what is said of the keys, by their names."""
        found: dict[str, str] = {}
        for key in keys_of(cls):
            of: Any = key.of
            said, name = descriptions(of), key.path[-1]
            found |= {key.name: said[name]} if name in said else {}
        return found

    @classmethod
    def of_keys(cls, values: dict[str, Any]) -> Self:
        """Make a record from the values of its keys, each checked by itself."""
        given: dict[str, Any] = {}
        inside: dict[str, dict[str, Any]] = {}
        kind: Any = cls
        places: Mapping[str, tuple[str, ...]] = _places(kind)
        for name, value in values.items():
            if name in places:
                field, *below = places[name]
                part = inside.setdefault(field, {}) if below else given
                part[name if below else field] = value
        for name, each in inside.items():
            made = _inlined(kind, name).of_keys
            there = any(value is not None for value in each.values())
            given[name] = made(each) if there else None
        return cls(**given)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        own = {}
        if cls.SCHEMA:
            kind = core_schema.literal_schema([cls.SCHEMA, *cls.FURTHER])
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
            # pydantic passes on ValueErrors.
            path = filter(None, [error.field])
            raise Fault(error.message, *path) from None


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
            kind: Any = cls
            for key in keys_of(_inlined(kind, field.name)):
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


@cache
def _places(cls: type[FileRecord]) -> dict[str, tuple[str, ...]]:
    """Return the paths of the keys that a record is made of, by their names."""
    return {key.name: key.path for key in keys_of(cls) if not key.derived}


@cache
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
    if isinstance(value, str | float | int | None):
        return value
    if isinstance(value, FileRecord):
        return value.to_json()
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


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
    try:
        # An interruption would be taken for a wrong value (``Expected``).
        with held():
            return adapter(kind).validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        found = faults(error, data, lambda path: _known(kind, path))
        raise first_error(found, field) from None


def _known(kind: Any, path: Path) -> list[str]:
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
