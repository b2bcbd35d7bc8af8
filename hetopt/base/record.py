"""Records: data that is checked once, when it is made, and does not change after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import core_schema

from hetopt.errors import InputError

if TYPE_CHECKING:
    from pydantic_core import CoreSchema, ErrorDetails

#: What is expected, by pydantic's type of an error and its context.
_EXPECTED = {
    "bool_type": "true or false",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a whole number of at least {ge:g}",
    "int_type": "a whole number",
    "literal_error": "{expected}",
    "string_type": "a text",
}


class Checked:
    """Marks a field of a class that checks itself: ``Annotated[Problem, Checked]``."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        return core_schema.is_instance_schema(source)


class Record(BaseModel):
    """Data with fields of given types and ranges.

    Raises
    ------
    InputError
        A value is none of its field; the first such field is named.
    """

    model_config = ConfigDict(
        allow_inf_nan=False, extra="forbid", frozen=True, strict=True
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            wrong = error.errors(include_url=False)[0]
            raise InputError(_message(wrong), field=str(wrong["loc"][0])) from None

    def but(self, **changes: Any) -> Self:
        """Return a record with some other values, checked like this one."""
        return type(self)(**{**dict(self), **changes})


def _message(wrong: ErrorDetails) -> str:
    expected = _EXPECTED.get(wrong["type"])
    if expected is None:
        return wrong["msg"]
    return f"is {wrong['input']!r}, expected {expected.format(**wrong.get('ctx', {}))}"
