"""Reading single values of JSON data; errors name the field."""

from __future__ import annotations

import math
import reprlib
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Largest number in a document: the most devices, or tokens, that a problem can have
#: (``fields.MAX_WHOLE`` squared).
LARGEST = 10**18

_T = TypeVar("_T", bound=str)


class DocumentReader:
    """Reader of values in a document; methods take the dotted field that they read.

    Parameters
    ----------
    file
        Name of the file in error messages.
    """

    def __init__(self, file: str | None) -> None:
        self.file = file

    def _names(self, top: dict[str, Any], key: str) -> tuple[str, ...]:
        where, _, last = key.rpartition(".")
        names = self._list(top, where, last)
        for place, name in enumerate(names):
            if not isinstance(name, str) or not name:
                self._wrong(f"{key}.{place}", name, "a name")
        if not names or len(set(names)) < len(names):
            self._wrong(key, names, "different names")
        return tuple(names)

    def _indices(
        self, top: dict[str, Any], key: str, names: tuple[str, ...]
    ) -> tuple[int, ...]:
        return tuple(
            names.index(self._choice(name, f"{key}.{place}", names))
            for place, name in enumerate(self._list(top, "", key))
        )

    def _get(self, entry: dict[str, Any], where: str, key: str) -> Any:
        if key not in entry:
            self._fail(_join(where, key), "is missing")
        return entry[key]

    def _object(self, value: Any, field: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._wrong(field or "document", value, "an object")
        return value

    def _list(
        self, entry: dict[str, Any], where: str, key: str, length: int | None = None
    ) -> list[Any]:
        value = self._get(entry, where, key)
        if not isinstance(value, list):
            self._wrong(_join(where, key), value, "a list")
        if length is not None and len(value) != length:
            self._wrong(_join(where, key), f"a list of {len(value)}", f"{length}")
        return value

    def _objects(
        self, entry: dict[str, Any], where: str, key: str, length: int | None = None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the field and the content of each object of a list."""
        for place, item in enumerate(self._list(entry, where, key, length)):
            field = f"{_join(where, key)}.{place}"
            yield field, self._object(item, field)

    def _text(self, entry: dict[str, Any], where: str, key: str) -> str:
        value = self._get(entry, where, key)
        if not isinstance(value, str) or not value:
            self._wrong(_join(where, key), value, "text")
        return value

    def _integer(
        self,
        entry: dict[str, Any],
        where: str,
        key: str,
        least: int = 0,
        most: int = LARGEST,
    ) -> int:
        value = self._get(entry, where, key)
        return self._whole(value, _join(where, key), least=least, most=most)

    def _whole(
        self,
        value: Any,
        field: str,
        *,
        least: int,
        most: int = LARGEST,
        place: int | None = None,
    ) -> int:
        where = field if place is None else f"{field} (entry {place})"
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self._wrong(where, value, f"a whole number of at least {least}")
        if value > most:
            self._wrong(where, value, f"at most {most}")
        return value

    def _float(self, entry: dict[str, Any], where: str, key: str) -> float:
        value = self._get(entry, where, key)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
            or value <= 0
        ):
            self._wrong(_join(where, key), value, "a number above 0")
        return float(value)

    def _choice(self, value: Any, field: str, choices: tuple[_T, ...]) -> _T:
        found = next((choice for choice in choices if value == choice), None)
        if found is None:
            self._wrong(field, value, f"one of {', '.join(choices)}")
        return found

    def _chosen(
        self, entry: dict[str, Any], where: str, key: str, choices: tuple[_T, ...]
    ) -> _T:
        return self._choice(self._get(entry, where, key), _join(where, key), choices)

    def _wrong(self, field: str, found: Any, expected: str) -> NoReturn:
        # Lists may be long or deep: only their beginning is shown.
        shown = found if isinstance(found, str) else reprlib.repr(found)
        if len(shown) > 60:
            shown = f"{shown[:57]}..."
        self._fail(field, f"is {shown}, expected {expected}")

    def _fail(self, field: str, message: str) -> NoReturn:
        raise InputError(message, file=self.file, field=field)


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
