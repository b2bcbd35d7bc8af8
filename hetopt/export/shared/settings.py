"""Settings of a runtime's YAML files, checked when they are read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hetopt.base import fields
from hetopt.base.faults import Fault
from hetopt.errors import InputError
from hetopt.export.understood import Read
from hetopt.problem.document.document import load_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hetopt.problem.document.document import Document, FieldPath

_T = TypeVar("_T")


class Settings:
    """Keys and values of a mapping in a file.

    Parameters
    ----------
    home
        Path of the mapping in the file.

    Attributes
    ----------
    data
        Everything at ``home``, not checked.
    """

    def __init__(self, document: Document, home: FieldPath = ()) -> None:
        self._document = document
        self._home = home
        self.data: Any = document.data
        for key in home:
            self.data = self.data.get(key) if isinstance(self.data, dict) else None
        content = self.data if isinstance(self.data, dict) else {}
        #: Keys looked up so far.
        self.asked: set[str] = set()
        self._values = {
            str(key): ((*home, key), value) for key, value in content.items()
        }

    @property
    def file(self) -> str:
        """The file, as the user named it."""
        place = self._document.place(())
        return place.file if place else "?"

    def under(self, *path: str) -> Settings:
        """Return the settings of an inner mapping, without any if there is none."""
        return Settings(self._document, (*self._home, *path))

    def whole(self) -> Settings:
        """Return the settings of the whole file."""
        return Settings(self._document)

    def part(self, key: str) -> Settings:
        """Return what is under a key as if it were a file of its own."""
        return Settings(self._document.part(key))

    def joined(self, *parts: str) -> Settings:
        """Return the keys of some parts and of all mappings nested in them.

        Dashes in keys become underscores. Of equal keys the last one counts.
        """
        if not isinstance(self.data, dict):
            msg = f"is no mapping, expected {', '.join(parts[:-1])} and {parts[-1]}"
            raise self._document.error((), msg)
        found = Settings(self._document, (parts[0],))
        found._values = {}
        for part in parts:
            section = self.data.get(part)
            if section is None:
                continue
            if not isinstance(section, dict):
                raise self._document.error((part,), "is no mapping")
            for path, value in _leaves((part,), section):
                found._values[str(path[-1]).replace("-", "_")] = (path, value)
        return found

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value as it is; the default if it is left out or null."""
        self.asked.add(key)
        value = self._values[key][1] if key in self._values else None
        return default if value is None else value

    def has(self, key: str) -> bool:
        """Whether there is such a key, with a value."""
        return self.get(key) is not None

    def texts(self) -> Read:
        """Return the values as texts, without null and false; true is empty."""
        values = {
            key: "" if value is True else str(value)
            for key, (_, value) in self._values.items()
            if value is not None and value is not False
        }
        return Read(values, self.asked)

    def flag(self, key: str) -> bool:
        """Return true or false; false if it is left out."""
        return self._checked(key, fields.flag, False)

    def number(self, key: str, default: int | None = None) -> int:
        """Return a whole number of at least 1; InputError for anything else."""
        return self._checked(key, fields.whole(1), default)

    def numbers(self, key: str) -> tuple[int, ...]:
        """Return a list of whole numbers."""
        return self._checked(key, partial(_each, fields.whole(0)))

    def rows(self, key: str) -> list[Any] | None:
        """Return a list as it is; None if it is left out."""
        return self._checked(key, fields.items) if self.has(key) else None

    def names(self, key: str) -> tuple[str, ...]:
        """Return a list of names; numbers are taken as they are written."""
        found = self._checked(key, partial(_each, _name))
        if not found:
            raise self.wrong(key, "is an empty list, expected names")
        return found

    def _checked(
        self, key: str, read: Callable[[Any], _T], default: object = None
    ) -> _T:
        """Return what a reader makes of a value, or of the default."""
        value = self.get(key, default)
        try:
            return read(value)
        except Fault as fault:
            message = fault.message
            if value is None:
                message = message.replace("is empty", "is left out", 1)
            raise self.wrong(key, message, *fault.path) from None

    def text(self, key: str, default: str) -> str:
        """Return a value as text."""
        return str(self.get(key, default))

    def wrong(self, key: str, message: str, *inside: str | int) -> InputError:
        """Return the error that says ``message`` about a key, or about what it has.

        Parameters
        ----------
        key
            Dotted below others.
        """
        own = (*self._home, *key.split("."))
        path = self._values[key][0] if key in self._values else own
        return self._document.error((*path, *inside), message)


def load_settings(path: Path) -> Settings:
    """Read a YAML file; InputError if it cannot be read."""
    return Settings(load_document(path))


def wrong_folder(folder: Path, what: str) -> InputError:
    """Return the error that says ``what`` about a folder of files."""
    return InputError(what, file=str(folder))


def _leaves(path: FieldPath, data: dict[str, Any]) -> Iterator[tuple[FieldPath, Any]]:
    for key, value in data.items():
        here = (*path, key)
        if isinstance(value, dict):
            yield from _leaves(here, value)
        else:
            yield here, value


def _each(read: Callable[[Any], _T], value: Any) -> tuple[_T, ...]:
    return fields.each(read, fields.items(value))


def _name(value: Any) -> str:
    """Read a name, as numbers are, too."""
    return fields.name(str(value) if type(value) is float else value)
