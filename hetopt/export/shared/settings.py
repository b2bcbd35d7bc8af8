"""Settings of a runtime's YAML files, checked when they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.base.fields import MAX_WHOLE
from hetopt.base.words import describe
from hetopt.errors import InputError
from hetopt.export.understood import Read
from hetopt.problem.document.document import load_document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hetopt.problem.document.document import Document, FieldPath


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
        value = self.get(key, False)
        if not isinstance(value, bool):
            raise self.wrong(key, f"is {_shown(value)}, expected true or false")
        return value

    def number(self, key: str, default: int | None = None) -> int:
        """Return a whole number of at least 1; InputError for anything else."""
        value = self.get(key, default)
        if type(value) is not int or not 1 <= value <= MAX_WHOLE:
            msg = f"is {_shown(value)}, expected a whole number from 1 to {MAX_WHOLE}"
            raise self.wrong(key, msg)
        return value

    def numbers(self, key: str) -> tuple[int, ...]:
        """Return a list of whole numbers."""
        value = self.get(key)
        if not isinstance(value, list):
            raise self.wrong(key, f"is {_shown(value)}, expected a list of numbers")
        for item in value:
            if type(item) is not int:
                raise self.wrong(key, f"holds {_shown(item)}, expected whole numbers")
            if item > MAX_WHOLE:
                raise self.wrong(
                    key, f"holds {_shown(item)}, expected at most {MAX_WHOLE}"
                )
        return tuple(value)

    def rows(self, key: str) -> list[Any] | None:
        """Return a list as it is; None if it is left out."""
        value = self.get(key)
        if value is not None and not isinstance(value, list):
            raise self.wrong(key, f"is {_shown(value)}, expected a list")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        """Return a list of names; numbers are taken as they are written."""
        value = self.get(key)
        if not isinstance(value, list) or not value:
            raise self.wrong(key, f"is {_shown(value)}, expected a list of names")
        for item in value:
            if type(item) not in (str, int, float):
                raise self.wrong(key, f"holds {_shown(item)}, expected names")
        return tuple(str(item) for item in value)

    def text(self, key: str, default: str) -> str:
        """Return a value as text."""
        return str(self.get(key, default))

    def wrong(self, key: str, message: str) -> InputError:
        """Return the error that says ``message`` about a key, dotted below others."""
        own = (*self._home, *key.split("."))
        path = self._values[key][0] if key in self._values else own
        return self._document.error(path, message)


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


def _shown(value: object) -> str:
    return "left out" if value is None else describe(value)
