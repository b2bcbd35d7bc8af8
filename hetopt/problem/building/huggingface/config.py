"""A mapping of a ``config.json`` that records which of its keys were read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from hetopt.base import fields
from hetopt.base.faults import Fault, inside
from hetopt.base.fields import MAX_WHOLE
from hetopt.base.record import read_field
from hetopt.base.words import describe, suggest
from hetopt.problem.model.architecture import Architecture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_T = TypeVar("_T")


class Config:
    """A mapping of a config file.

    Parameters
    ----------
    data
        Content of the mapping.
    defaults
        Values of keys that are left out.
    path
        Where the mapping is in the file.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        defaults: Mapping[str, Any] | None = None,
        path: tuple[str, ...] = (),
    ) -> None:
        self._data = data
        self._defaults = defaults or {}
        self._path = path
        self._read: set[str] = set()

    def value(self, key: str) -> Any:
        """Return the value of a key; its default if it is left out."""
        self._read.add(key)
        return self._data[key] if key in self._data else self._defaults.get(key)

    def unknown(
        self, key: str, said: str, remedy: str, others: Iterable[str] = ()
    ) -> Fault:
        """Return the error about a key that was not read, with what it may be.

        Parameters
        ----------
        others
            Keys that are known, but not read.
        """
        hint = suggest(key, sorted({*self._read, *others} - self._data.keys()))
        return self.wrong(key, f"{said}{hint}: {remedy}")

    def wrong(self, key: str, message: str) -> Fault:
        """Return the error with ``message`` about a key."""
        return Fault(message, *self._path, key)

    def whole(self, key: str, least: int = 1, most: int = MAX_WHOLE) -> int | None:
        """Return a whole number; None if there is none."""
        return self._checked(key, fields.whole(least, most))

    def number(self, key: str, field: str, kind: Any = Architecture) -> float | None:
        """Return a number that a field of a record can have; None if there is none."""

        def read(value: Any) -> float:
            try:
                found: float = read_field(kind, field, value, None)
            except Fault as fault:
                # The file has another name for the field.
                raise Fault(fault.message) from None
            return found

        return self._checked(key, read)

    def flag(self, key: str) -> bool:
        """Return true or false; false if there is neither."""
        return self._checked(key, fields.flag) or False

    def _checked(self, key: str, read: Callable[[Any], _T]) -> _T | None:
        value = self.value(key)
        with inside(*self._path, key):
            return None if value is None else read(value)

    def part(self, key: str, defaults: Mapping[str, Any] | None = None) -> Config:
        """Return the mapping under a key, without any keys if there is none."""
        value = self.value(key)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(key, f"is {describe(value)}, expected a mapping")
        return Config(value or {}, defaults, (*self._path, key))

    def must_be(self, key: str, value: Any, why: str) -> None:
        """Raise Fault unless a key is left out, null or ``value``."""
        given = self.value(key)
        if given is not None and (given != value or type(given) is not type(value)):
            msg = f"is {describe(given)}, expected {describe(value)}: {why}"
            raise self.wrong(key, msg)

    def __contains__(self, key: str) -> bool:
        """Whether a key is there and not null; the key then counts as read."""
        self._read.add(key)
        return self._data.get(key) is not None

    def unread(self) -> Iterator[str]:
        """Yield the keys that were not read and are not null."""
        for key, value in self._data.items():
            if key not in self._read and value is not None:
                yield key
