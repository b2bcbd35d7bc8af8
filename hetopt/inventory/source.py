"""An inventory's file: its text, and its value if it is JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from hetopt.base.faults import faults
from hetopt.base.interruption import held
from hetopt.base.reading import (
    MIB,
    MOST_TEXT_BYTES,
    decoded,
    parse_json,
    read_bytes,
    too_large,
)
from hetopt.errors import InputError
from hetopt.problem.cluster.cluster import host_fault
from hetopt.problem.document.document import dotted

if TYPE_CHECKING:
    from collections.abc import Callable

_Value = TypeVar("_Value")
_Read = TypeVar("_Read")

_WHAT = "an inventory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file that was read.

    Attributes
    ----------
    file
        Its name, as the user gave it.
    text
        Its whole text.
    data
        Its value if it is JSON; None if it is not.
    """

    file: str
    text: str
    data: Any = None

    @property
    def lines(self) -> list[tuple[int, str]]:
        """Line numbers from 1 and lines, without empty lines and whole comments."""
        stripped = (line.strip() for line in self.text.splitlines())
        return [
            (number, line)
            for number, line in enumerate(stripped, start=1)
            if line and not line.startswith("#")
        ]

    def error(
        self, message: str, *, line: int | None = None, field: str | None = None
    ) -> InputError:
        """Return the error with ``message`` about this file."""
        return InputError(message, file=self.file, line=line, field=field)

    def read(
        self,
        reader: Callable[[_Value], _Read],
        value: _Value,
        field: str,
        line: int | None = None,
    ) -> _Read:
        """Return what a reader makes of a field; InputError for its ValueError."""
        try:
            return reader(value)
        except ValueError as error:
            raise self.error(str(error), line=line, field=field) from None

    def host(self, name: str, *, line: int | None = None, field: str = "host") -> str:
        """Return a host's name; raises InputError if it cannot be one."""
        fault = host_fault(name)
        if fault:
            raise self.error(fault, line=line, field=field)
        return name


class Lenient(BaseModel):
    """Part of another program's JSON: unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _is_object(cls, value: Any) -> Any:
        # pydantic's own error names the class.
        if not isinstance(value, dict | cls):
            raise PydanticCustomError("dict_type", "an object")
        return value


_Model = TypeVar("_Model", bound=Lenient)


def parse(model: type[_Model], source: Source, data: Any) -> _Model:
    """Validate JSON data; raises InputError that names the first wrong field."""
    try:
        with held():
            return model.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        first = faults(error, data)[0]
        raise source.error(first.message, field=dotted(first.path)) from None


def load_source(path: str) -> Source:
    """Read a file; raises InputError if it is not text, or broken JSON."""
    content = read_bytes(path, _WHAT)
    is_json = content[:MIB].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
    if len(content) > MOST_TEXT_BYTES and not is_json:
        raise too_large(path, _WHAT, MOST_TEXT_BYTES)
    return source_of(decoded(content, path, _WHAT), path)


def source_of(text: str, file: str) -> Source:
    """Return the source with this text; raises InputError for broken JSON."""
    if not text.strip():
        raise InputError("is empty, expected an inventory", file=file)
    if text.lstrip()[0] not in "{[":
        return Source(file=file, text=text)
    try:
        return Source(file=file, text=text, data=parse_json(text.encode(), file, _WHAT))
    except InputError as error:
        if "'" not in text.partition("\n")[0] or error.line is None:
            raise
        msg = f"{error.message}; of a Python object, print json.dumps(...)"
        raise InputError(msg, file=file, line=error.line) from None
