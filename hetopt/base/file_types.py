"""Types of what records in files have, and what their fields are marked with.

See ``hetopt.base.file_record``; pydantic is loaded only where a file is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from annotated_types import Ge, Gt

if TYPE_CHECKING:
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
class Expected:
    """What errors say is expected, of whatever is wrong with a value."""

    text: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.custom_error_schema(
            handler(source),
            custom_error_type="expected",
            custom_error_message=self.text,
        )


class IsDigest:
    """Marks a text that is a SHA-256 in hexadecimal."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.str_schema(pattern="^[0-9a-f]{64}$")


@dataclass(frozen=True)
class As:
    """A part that is a mapping in Python, and in files this ``TypedDict``."""

    kind: Any

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return handler.generate_schema(self.kind)


Whole = Annotated[int, Ge(0), Expected("a whole number of at least 0")]
Count = Annotated[int, Ge(1), Expected("a whole number of at least 1")]
NotNegative = Annotated[float, Ge(0.0), Expected("a number of at least 0")]
Seconds: TypeAlias = NotNegative
Positive = Annotated[float, Gt(0.0), Expected("a number above 0")]
Digest = Annotated[str, IsDigest(), Expected("64 hexadecimal digits")]
