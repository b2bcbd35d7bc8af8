"""Records: data that is checked once, when it is made, and does not change after."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import core_schema

from hetopt.base.faults import fault

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


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
            keys = partial(_top, tuple(type(self).model_fields))
            raise fault(error, values, keys, repr) from None

    def but(self, **changes: Any) -> Self:
        """Return a record with some other values, checked like this one."""
        return type(self)(**{**dict(self), **changes})


def _top(known: tuple[str, ...], path: tuple[str | int, ...]) -> tuple[str, ...]:
    """Return the names of a record's fields, but none of what its values have."""
    return () if path else known
