"""Records that refuse wrong values with InputError, also in ``dataclasses.replace``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache, wraps
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hetopt.base.words import describe, suggest
from hetopt.errors import RecordError

_Record = TypeVar("_Record")

#: Types whose annotation admits further types: NumPy's numbers, for example.
_WIDER: Mapping[Any, type] = {int: Integral, float: Real}


def checked(record: type[_Record]) -> type[_Record]:
    """Return a dataclass that raises RecordError for what its fields cannot have.

    A value must be of its field's annotation, whose names the module has to import. The
    record's ``__post_init__`` raises ValueError for what else is wrong.
    """
    made: Any = record.__init__

    @cache
    def types() -> dict[str, Any]:
        return get_type_hints(record)

    @wraps(made)
    def init(self: _Record, **given: Any) -> None:
        for name, value in given.items():
            if name not in types():
                known = [each.name for each in fields(record)]  # type: ignore[arg-type]
                msg = f"{record.__name__} has no field {name!r}{suggest(name, known)}"
                raise RecordError(msg)
            if not _fits(value, types()[name]):
                expected = _choices(types()[name]) or record.__annotations__[name]
                raise RecordError(f"{name} is {describe(value)}, expected {expected}")
        try:
            made(self, **given)
        except RecordError:
            raise
        except ValueError as error:
            raise RecordError(str(error)) from error

    record.__init__ = init  # type: ignore[assignment,method-assign]
    return record


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type; of what containers hold, a tuple's items alone."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in args
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in args)
    if not isinstance(value, _WIDER.get(hint, origin or hint)):
        return False
    alike = origin is tuple and args[-1] is Ellipsis
    return not alike or all(_fits(each, args[0]) for each in value)


def _choices(hint: Any) -> str:
    """Return the values of a type that lists them, in words; empty for another type."""
    listed = [each for each in (hint, *get_args(hint)) if get_origin(each) is Literal]
    return f"one of {', '.join(get_args(listed[0]))}" if listed else ""
