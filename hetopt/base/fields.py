"""Types of the fields that records have, each with what it refuses.

Files give what these types read; so does a program, whose texts may be any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any, TypeAlias, TypeVar

from annotated_types import Ge, Gt
from pydantic import BeforeValidator, Field, GetCoreSchemaHandler, ValidationInfo
from pydantic_core import PydanticCustomError, ValidationError, core_schema

from hetopt.base.faults import Fault, inside
from hetopt.base.words import describe, suggest

_T = TypeVar("_T")

#: Most characters of a name; paths are names, too.
MAX_NAME = 1000
#: Largest whole number of a field; products of larger ones exceed 64 bits.
MAX_WHOLE = 10**9


def unknown(name: object, what: str, known: Iterable[str]) -> str:
    """Return a message about an unknown name, with a near one and all known ones."""
    known = list(known)
    hint = suggest(name, known) if isinstance(name, str) else ""
    return f"is {describe(name)}{hint}, expected {what}: {', '.join(known)}"


def whole(least: int, most: int = MAX_WHOLE) -> Callable[[Any], int]:
    """Return a reader of whole numbers from ``least`` to ``most``."""

    def read(value: Any) -> int:
        is_whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not is_whole or value < least:
            msg = f"is {describe(value)}, expected a whole number of at least {least}"
            raise Fault(msg)
        if value > most:
            raise Fault(f"is {describe(value)}, expected at most {most}")
        return int(value)

    return read


def number(value: Any) -> float:
    """Read a finite number."""
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            read = float(value)
        except OverflowError:
            read = math.inf
        if math.isfinite(read):
            return read
    raise Fault(f"is {describe(value)}, expected a number")


def flag(value: Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise Fault(f"is {describe(value)}, expected true or false")
    return value


def choice(names: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Return a reader of one of ``names``."""

    def read(value: Any) -> Any:
        # 1.0 and true are equal to 1, but not the same.
        if value not in names or type(value) is not type(names[0]):
            listed = tuple(map(str, names))
            alike = isinstance(value, str) and isinstance(names[0], str)
            hint = suggest(value, listed) if alike else ""
            msg = f"is {describe(value)}{hint}, expected one of {', '.join(listed)}"
            raise Fault(msg)
        return value

    return read


def name(value: Any, *path: str | int) -> str:
    """Read a name, of the field at ``path``; a whole number is converted to text."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise Fault(f"is {describe(value)}, expected a name", *path)
    if len(value) > MAX_NAME:
        msg = f"has {len(value)} characters, expected at most {MAX_NAME}"
        raise Fault(msg, *path)
    if not value.isprintable():
        raise Fault("contains characters that cannot be printed", *path)
    return value


def _name(value: Any, info: ValidationInfo) -> str:
    is_text = info.context is None and isinstance(value, str)
    return str(value) if is_text else name(value)


def each(read: Callable[[Any], _T], values: Iterable[Any]) -> tuple[_T, ...]:
    """Read every item of a list; a fault names the item's position."""
    result = []
    for index, item in enumerate(values):
        with inside(index):
            result.append(read(item))
    return tuple(result)


def by_key(read: Callable[[Any], _T], value: Any, such: str) -> dict[str, _T]:
    """Read every value of a mapping such as ``such``; a fault names its key."""
    if not isinstance(value, dict):
        raise Fault(f"is {describe(value)}, expected a mapping {such}")
    result = {}
    for key, item in value.items():
        with inside(key):
            result[key] = read(item)
    return result


def several(read: Callable[[Any], _T]) -> Callable[[Any], tuple[_T, ...]]:
    """Return a reader of one value or a list of them, without repetitions."""

    def read_all(value: Any) -> tuple[_T, ...]:
        if not isinstance(value, list | tuple):
            return (read(value),)
        if not value:
            raise Fault("is an empty list, expected at least one value")
        result = each(read, value)
        for index, item in enumerate(result):
            if item in result[:index]:
                raise Fault(f"is {describe(item)} a second time", index)
        return result

    return read_all


def items(value: Any) -> Any:
    """Pass on a list."""
    if not isinstance(value, list | tuple):
        raise Fault(f"is {describe(value)}, expected a list")
    return value


@dataclass(frozen=True)
class Expected:
    """What errors say is expected, of whatever is wrong with what stands before it."""

    text: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        typed = handler(source)
        quick = core_schema.custom_error_schema(
            typed, custom_error_type="expected", custom_error_message=self.text
        )
        # It takes whatever is raised for a wrong value, an interruption as well: only
        # where nothing of Python runs, which is in JSON.
        careful = core_schema.no_info_wrap_validator_function(self._said, typed)
        return core_schema.json_or_python_schema(quick, careful)

    def _said(self, value: Any, read: Callable[[Any], Any]) -> Any:
        try:
            return read(value)
        except ValidationError:
            raise PydanticCustomError("expected", self.text) from None


@dataclass(frozen=True)
class Read:
    """Reads what programs and YAML give; JSON is checked as fast as a type permits."""

    read: Callable[[Any], Any]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        typed = handler(source)
        given = core_schema.no_info_before_validator_function(self.read, typed)
        return core_schema.json_or_python_schema(typed, given)


Count = Annotated[int, Ge(1), Expected("a whole number of at least 1"), Read(whole(1))]
Whole = Annotated[int, Ge(0), Expected("a whole number of at least 0"), Read(whole(0))]
Wholes = Annotated[tuple[Whole, ...], BeforeValidator(items)]
Number = Annotated[float, Read(number)]
NotNegative = Annotated[float, Ge(0), Read(number), Expected("a number of at least 0")]
Seconds: TypeAlias = NotNegative
Positive = Annotated[float, Gt(0), Read(number), Expected("a number above 0")]
Flag = Annotated[bool, Read(flag)]
Name = Annotated[str, BeforeValidator(_name)]
Digest = Annotated[
    str, Field(pattern="^[0-9a-f]{64}$"), Expected("64 hexadecimal digits")
]
