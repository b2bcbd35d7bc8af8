"""Records: data that is checked once, when it is made, and does not change after.

A record's fields are declared once, each with its type, and said in the docstring's
section ``Attributes``. From that declaration come the checks, also those of
``dataclasses.replace``, the reader of a file's section (``read``) and its JSON Schema.
"""

from __future__ import annotations

import re
from dataclasses import field, fields
from fractions import Fraction
from functools import cache, wraps
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, get_args

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass
from pydantic.json_schema import SkipJsonSchema

from hetopt.base.faults import FLAT, Fault, UnknownField, faults
from hetopt.base.schema import descriptions
from hetopt.base.words import describe
from hetopt.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import ValidationInfo
    from pydantic.fields import FieldInfo

_Record = TypeVar("_Record")

#: Files have lists and texts where programs have tuples and names: see ``read``.
_CONFIG = ConfigDict(
    allow_inf_nan=False,
    extra="forbid",
    strict=True,
    validate_by_alias=True,
    validate_by_name=True,
)
#: Marks a field that a file cannot give: ``Annotated[int, INTERNAL]``.
INTERNAL: Any = SkipJsonSchema()  # type: ignore[type-arg]


def derived(*, factory: Callable[[dict[str, Any]], Any]) -> Any:
    """Return a field whose default is made of the fields before it, by their names."""
    return Field(default_factory=factory, kw_only=True)


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(Field, field, derived)
)
def record(kind: type[_Record]) -> type[_Record]:
    """Return a class as a frozen dataclass that refuses values with RecordError.

    Its ``__post_init__`` raises Fault for fields that contradict each other. What a
    file gives may be completed before it is checked: by a class method
    ``completed(given, source)``. Fields that only files have are ``InitVar``. An empty
    value in a file counts as left out, or for records with ``empty_is_wrong`` as wrong.
    ``elsewhere`` are keys of fields that something else in a file may give.
    """

    # Not the class that it is called on: slots make another one.
    def given(_: Any, value: Any, info: ValidationInfo) -> Any:
        return _given(made, value, info)

    hook: Any = classmethod(given)
    kind._given = model_validator(mode="before")(hook)  # type: ignore[attr-defined]
    made: Any = dataclass(frozen=True, kw_only=True, slots=True, config=_CONFIG)(kind)
    checked = made.__init__

    @wraps(checked)
    def init(self: _Record, **values: Any) -> None:
        for name in values.keys() - _fields(made).keys():
            raise RecordError(str(UnknownField(name, tuple(_fields(made)))), field=name)
        try:
            checked(self, **values)
        except ValidationError as error:
            first, *_ = faults(error)
            names: dict[Any, str] = {
                info.alias: name for name, info in _fields(made).items()
            }
            path = [str(names.get(key, key)) for key in first.path]
            raise RecordError(first.message, field=".".join(path) or None) from None

    made.__init__ = init
    return made  # type: ignore[no-any-return]


def read(kind: type[_Record], data: Any, source: object) -> _Record:
    """Return the record that a file's section describes.

    Parameters
    ----------
    data
        Plain data, with the names that fields have in files.
    source
        What validators need to know of the file, as their context; not None.

    Raises
    ------
    ValidationError
        See ``faults``.
    """
    validator: Any = kind.__pydantic_validator__  # type: ignore[attr-defined]
    made: _Record = validator.validate_python(data, context=source, strict=False)
    return made


def as_given(made: Any) -> dict[str, Any]:
    """Return a record's fields by their names in files.

    Numbers with names of their own there, as they are given with a unit, are Fractions
    of base units, which readers take as they are.
    """
    found = {}
    for each in fields(made):
        value, alias = getattr(made, each.name), _fields(type(made))[each.name].alias
        has_unit = alias is not None and isinstance(value, Real)
        found[alias or each.name] = Fraction(value) if has_unit else value
    return found


def read_field(kind: Any, key: str, value: Any, source: object) -> Any:
    """Return a value of one field of a record; Fault if it cannot have it."""
    by_key = {each.alias or name: each for name, each in _fields(kind).items()}
    declared: Any = by_key[key].rebuild_annotation()
    try:
        return TypeAdapter(declared).validate_python(
            value, context=source, strict=False
        )
    except ValidationError as error:
        raise faults(error)[0].inside(key) from None


def _fields(kind: Any) -> Mapping[str, FieldInfo]:
    found: Mapping[str, FieldInfo] = kind.__pydantic_fields__
    return found


def _flat(info: FieldInfo) -> Any:
    """Return the record of a field whose fields stand beside others."""
    kinds = (info.annotation, *get_args(info.annotation))
    return next(kind for kind in kinds if hasattr(kind, "__pydantic_fields__"))


@cache
def keys(kind: Any) -> Mapping[str, FieldInfo]:
    """Return the fields that a file may give, by their names there."""
    found: dict[str, FieldInfo] = {}
    for name, info in _fields(kind).items():
        if info.alias == FLAT:
            found |= keys(_flat(info))
        elif INTERNAL not in info.metadata:
            found[info.alias or name] = info
    return found


def _given(kind: Any, value: Any, info: ValidationInfo) -> Any:
    """Return what a file gives of a record, completed; other values unchanged."""
    if info.context is None:
        return value
    known = keys(kind)
    if isinstance(value, str) and "preset" in known:
        value = {"preset": value}
    if not isinstance(value, dict):
        msg = f"is {describe(value)}, expected a mapping with {', '.join(known)}"
        raise Fault(msg)
    for key in value:
        if key not in known:
            raise UnknownField(key, tuple(known))
    given = value
    if not getattr(kind, "empty_is_wrong", False):
        optional = {key for key, each in known.items() if not each.is_required()}
        given = {k: x for k, x in value.items() if x is not None or k not in optional}
    if hasattr(kind, "completed"):
        given = kind.completed(given, info.context)
    for name, inner in _fields(kind).items():
        if inner.alias == FLAT:
            own = keys(_flat(inner))
            given[FLAT] = {key: given.pop(key) for key in own if key in given}
        elif inner.is_required() and not {name, inner.alias or name} & given.keys():
            key = inner.alias or name
            words = re.split(r"[.;](?:\s|$)", descriptions(kind)[name])[0]
            raise Fault(f"is missing, expected {words[0].lower()}{words[1:]}", key)
    return given
