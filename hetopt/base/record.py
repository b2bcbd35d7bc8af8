"""Records: data that is checked once, when it is made, and does not change after.

A record's fields are declared once, each with its type and a docstring below it. From
that declaration come the checks, also those of ``dataclasses.replace``, the reader of a
file's section (``read``) and its JSON Schema.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from contextlib import contextmanager
from dataclasses import field, fields
from fractions import Fraction
from functools import cache, wraps
from itertools import pairwise
from numbers import Real
from typing import TYPE_CHECKING, Any, Self, TypeVar, dataclass_transform, get_args

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass
from pydantic.json_schema import GenerateJsonSchema, SkipJsonSchema

from hetopt.base.words import describe, suggest
from hetopt.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pydantic import ValidationInfo
    from pydantic.fields import FieldInfo

_Record = TypeVar("_Record")
#: Keys and positions that lead to a value.
Path = tuple[str | int, ...]

#: Files have lists and texts where programs have tuples and names: see ``read``.
_CONFIG = ConfigDict(
    allow_inf_nan=False,
    extra="forbid",
    strict=True,
    validate_by_alias=True,
    validate_by_name=True,
)
#: Name in files of a field whose own fields stand beside those of the record.
FLAT = ""
#: Marks a field that a file cannot give: ``Annotated[int, INTERNAL]``.
INTERNAL: Any = SkipJsonSchema()  # type: ignore[type-arg]

#: What is expected, by pydantic's type of an error and its context.
_EXPECTED = {
    "bool_type": "true or false",
    "dataclass_exact_type": "{class_name}",
    "dataclass_type": "{class_name}",
    "dict_type": "a mapping",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "int_type": "a whole number",
    "is_instance_of": "{class}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "multiple_of": "a multiple of {multiple_of:g}",
    "string_type": "a text",
    "tuple_type": "a list",
}


class Fault(ValueError):
    """A value that a field cannot have.

    Parameters
    ----------
    message
        What is wrong with the value and what was expected: ``is 0, expected ...``.
    path
        Where the value is inside the field or record that refuses it.
    """

    def __init__(self, message: str, *path: str | int) -> None:
        self.message = message
        self.path = path
        super().__init__(message)

    def inside(self, *path: str | int) -> Self:
        """Return the fault as it is seen from around ``path``."""
        found = type(self).__new__(type(self), *self.args)
        found.__dict__ |= {**self.__dict__, "path": path + self.path}
        return found


@contextmanager
def inside(*path: str | int) -> Iterator[None]:
    """Have faults, and other ValueErrors, say that the value at ``path`` is wrong."""
    try:
        yield
    except Fault as fault:
        raise fault.inside(*path) from None
    except ValueError as error:
        raise Fault(str(error), *path) from None


class UnknownField(Fault):
    """A key that a record does not have; ``names`` are those that it has."""

    def __init__(self, key: str, names: tuple[str, ...]) -> None:
        self.names = names
        hint = suggest(key, names)
        msg = f"is not a known field{hint}, expected one of {', '.join(names)}"
        super().__init__(msg, key)


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
    declared: Any = keys(kind)[key].rebuild_annotation()
    try:
        return TypeAdapter(declared).validate_python(value, context=source)
    except ValidationError as error:
        raise next(faults(error)).inside(key) from None


def faults(error: ValidationError) -> Iterator[Fault]:
    """Yield what is wrong with a record's values, with the paths in its file."""
    for each in error.errors(include_url=False):
        path: Path = tuple(key for key in each["loc"] if key != FLAT)
        context, value = each.get("ctx", {}), each["input"]
        said = f"is {value:g}" if isinstance(value, float) else f"is {describe(value)}"
        cause, expected = context.get("error"), _EXPECTED.get(each["type"])
        if isinstance(cause, ValidationError):
            yield from (inner.inside(*path) for inner in faults(cause))
        elif isinstance(cause, Fault):
            yield cause.inside(*path)
        elif cause is not None:
            yield Fault(str(cause), *path)
        elif expected is not None:
            yield Fault(f"{said}, expected {expected.format(**context)}", *path)
        elif each["type"] == "missing":
            yield Fault("is missing", *path)
        elif each["type"] == "unexpected_keyword_argument":
            yield Fault("is not a known field", *path)
        elif each["type"] != "default_factory_not_called":
            yield Fault(f"{said}, expected: {each['msg']}", *path)


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
            words = re.split(r"[.;](?:\s|$)", described(kind)[name])[0]
            raise Fault(f"is missing, expected {words[0].lower()}{words[1:]}", key)
    return given


@cache
def described(kind: Any) -> Mapping[str, str]:
    """Return what the docstrings below a record's fields say."""
    tree: Any = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    found = {}
    for declared, below in pairwise(tree.body):
        if isinstance(declared, ast.AnnAssign) and isinstance(below, ast.Expr):
            name: Any = declared.target
            found[name.id] = " ".join(ast.literal_eval(below.value).split())
    return found


class Described(GenerateJsonSchema):
    """JSON Schemas of records, with what docstrings say."""

    def dataclass_schema(self, schema: Any) -> Any:
        """Return the schema of a record."""
        made = super().dataclass_schema(schema)
        kind = schema["cls"]
        made["description"] = inspect.cleandoc(kind.__doc__).split("\n\n")[0]
        texts = described(kind)
        for name, info in _fields(kind).items():
            part = made["properties"].get(info.alias or name)
            if part is not None:
                part.pop("title", None)
                if name in texts:
                    part["description"] = texts[name]
        needed = {*made.pop("required", ())} - {*getattr(kind, "elsewhere", ()), FLAT}
        if needed:
            made["required"] = [key for key in made["properties"] if key in needed]
        return made
