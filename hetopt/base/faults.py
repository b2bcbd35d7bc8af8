"""What is wrong with a record's values: one line for each, with its place."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from hetopt.base.words import counted, describe, suggest
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pydantic_core import ErrorDetails

#: Keys and positions that lead to a value.
Path = tuple[str | int, ...]
#: Name in files of a field whose own fields stand beside those of the record.
FLAT = ""

#: What is expected, by pydantic's type of an error and its context.
_EXPECTED = {
    "bool_type": "true or false",
    "dataclass_exact_type": "{class_name}",
    "dataclass_type": "{class_name}",
    "dict_type": "a mapping",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "is_instance_of": "{class}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "multiple_of": "a multiple of {multiple_of}",
    "none_required": "null",
    "string_type": "a text",
    "too_long": "at most {max_length}",
    "too_short": "at least {min_length}",
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

    def __init__(self, key: str, names: Sequence[str]) -> None:
        self.names = names
        self.expected = f"expected one of {', '.join(names)}"
        msg = f"is not a known field{suggest(key, names)}"
        super().__init__(f"{msg}, {self.expected}" if names else msg, key)


def faults(
    error: ValidationError,
    data: object = None,
    known: Callable[[Path], Sequence[str]] = lambda _: (),
) -> list[Fault]:
    """Return what is wrong with a record's values, by their places.

    Parameters
    ----------
    data
        Plain data that was read, if it has everything that is wrong: names of the forms
        that a value may have are then no places.
    known
        Returns the keys of the object at a place.
    """
    by_place: dict[Path, list[ErrorDetails]] = {}
    for each in error.errors(include_url=False):
        if each["type"] != "default_factory_not_called":
            by_place.setdefault(_place(each, data), []).append(each)
    return [
        fault
        for place, every in by_place.items()
        for fault in _faults(place, every, known)
    ]


def _faults(
    path: Path, every: Sequence[ErrorDetails], known: Callable[[Path], Sequence[str]]
) -> Iterator[Fault]:
    """Yield what is wrong with the value at a place, whose forms are refused singly."""
    first, *_ = every
    context = first.get("ctx", {})
    cause = context.get("error")
    expected = " or ".join(dict.fromkeys(filter(None, map(_expected, every))))
    if isinstance(cause, ValidationError):
        yield from (inner.inside(*path) for inner in faults(cause))
    elif isinstance(cause, Fault):
        yield cause.inside(*path)
    elif cause is not None:
        yield Fault(str(cause), *path)
    elif first["type"] == "missing":
        yield Fault("is missing", *path)
    elif first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        *above, key = path
        yield UnknownField(str(key), known((*above,))).inside(*above)
    elif first["loc"][-1:] == ("[key]",):
        yield Fault(f"is not a known field, expected {expected}", *path)
    else:
        said = f"is {describe(first['input'])}"
        if "actual_length" in context:
            said = f"has {counted(context['actual_length'], 'entry', 'ies')}"
        elif expected.startswith("one of") and isinstance(first["input"], str):
            said += suggest(first["input"], _names(first))
        yield Fault(f"{said}, expected {expected or first['msg']}", *path)


def _place(wrong: ErrorDetails, data: Any) -> Path:
    """Return where an error is."""
    path = tuple(key for key in wrong["loc"] if key != FLAT)
    if data is None:
        return path
    found: list[str | int] = []
    absent = path[-1:] if wrong["type"] == "missing" else ()
    for part in path[: len(path) - len(absent)]:
        there = (
            part in data
            if isinstance(data, dict)
            else isinstance(data, list | tuple) and isinstance(part, int)
        )
        if there:
            found.append(part)
            data = data[part]
    return (*found, *absent)


def _expected(wrong: ErrorDetails) -> str:
    if wrong["type"] == "expected":
        return wrong["msg"]
    if wrong["type"] == "literal_error":
        names = _names(wrong)
        return f"one of {', '.join(names)}" if len(names) > 1 else repr(*names)
    context = {
        limit: f"{value:.10g}" if isinstance(value, float) else value
        for limit, value in wrong.get("ctx", {}).items()
    }
    return _EXPECTED.get(wrong["type"], "").format(**context)


def _names(wrong: ErrorDetails) -> list[str]:
    """Return the values of a literal."""
    listed: str = wrong["ctx"]["expected"]
    return [each.strip("'") for each in re.split(", | or ", listed)]


def first_error(found: Sequence[Fault], field: str = "") -> InputError:
    """Return the error about the fault that counts first, in the file's ``field``.

    Another kind of file has other keys; a key that is not known may be a slip.
    """
    worst = min(
        found,
        key=lambda each: (
            each.path != ("schema",),
            not isinstance(each, UnknownField),
        ),
    )
    path = (*filter(None, [field]), *map(str, worst.path))
    return InputError(worst.message, field=".".join(path) or None)
