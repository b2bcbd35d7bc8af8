"""What is wrong with a record's values, in one line that names the field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.base.words import describe, suggest
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

#: What is expected, by pydantic's type of an error and its context.
_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "an object",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "{number} above {gt:g}",
    "greater_than_equal": "{number} of at least {ge:g}",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "less_than_equal": "{number} of at most {le:g}",
    "literal_error": "{expected}",
    "none_required": "null",
    "string_type": "a text",
    "too_long": "at most {max_length}",
    "too_short": "at least {min_length}",
    "tuple_type": "a list",
    "list_type": "a list",
}


def fault(
    error: ValidationError,
    data: object,
    known: Callable[[tuple[str | int, ...]], Sequence[str]],
    shown: Callable[[object], str] = describe,
) -> InputError:
    """Return the error about the first value that is wrong.

    Parameters
    ----------
    known
        Returns the keys of the object at a place of the data.
    shown
        Returns how a value looks; by default as in JSON.
    """
    every = error.errors(include_url=False)
    # Another kind of file has other keys; a key that is not known may be a slip.
    every.sort(
        key=lambda each: (
            each["loc"] != ("schema",),
            each["type"] != "extra_forbidden",
        )
    )
    wrong, path = every[0], _place(every[0], data)
    field = ".".join(map(str, path)) or None
    if wrong["type"] == "missing":
        return InputError("is missing", field=field)
    if wrong["type"] == "extra_forbidden":
        keys, key = known(path[:-1]), str(path[-1])
        msg = f"is not a known key{suggest(key, keys)}, expected one of "
        return InputError(msg + ", ".join(keys), field=field)
    if wrong["loc"][-1:] == ("[key]",):
        msg = f"is not a known key, expected {_expected(wrong)}"
        return InputError(msg, field=field)
    if not _expected(wrong):
        cause = getattr(wrong.get("ctx", {}).get("error"), "__cause__", None)
        inside = cause.field if isinstance(cause, InputError) else None
        field = ".".join(each for each in (field, inside) if each) or None
        return InputError(wrong["msg"].removeprefix("Value error, "), field=field)
    # The forms that a value may have are refused one by one.
    same = [_expected(each) for each in every if _place(each, data) == path]
    expected = " or ".join(dict.fromkeys(each for each in same if each))
    what = f"is {shown(wrong['input'])}"
    if wrong["type"] in ("too_long", "too_short"):
        what = f"has {wrong['ctx']['actual_length']} entries"
    return InputError(f"{what}, expected {expected}", field=field)


def _place(wrong: ErrorDetails, data: Any) -> tuple[str | int, ...]:
    """Return where an error is; names of the forms of a value are no places."""
    found: list[str | int] = []
    absent = wrong["type"] == "missing"
    *above, last = wrong["loc"] or ("",)
    for part in (*above, *(() if absent else (last,))):
        there = (
            part in data
            if isinstance(data, dict)
            else isinstance(data, list | tuple) and isinstance(part, int)
        )
        if there:
            found.append(part)
            data = data[part]
    return (*found, *((last,) if absent else ()))


def _expected(wrong: ErrorDetails) -> str:
    if wrong["type"] == "expected":
        return wrong["msg"]
    context = wrong.get("ctx", {})
    limit = next((context[x] for x in ("ge", "gt", "le") if x in context), 0)
    number = "a number" if isinstance(limit, float) else "a whole number"
    return _EXPECTED.get(wrong["type"], "").format(number=number, **context)
