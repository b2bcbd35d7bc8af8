"""Values of a JSON document, each declared once: read, checked and written.

An *axis* is a list of the document, such as its kinds of units, along which other
values lie. A value refers to the list that was last read, or written, under its name:
every slice of a table has layouts of its own.
"""

from __future__ import annotations

import math
import reprlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from hetopt.base.words import counted
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

#: Largest number in a document: the most devices, or tokens, that a problem can have
#: (``fields.MAX_WHOLE`` squared).
LARGEST = 10**18


@dataclass
class Document:
    """A document that is read or written: its file, for messages, and its axes."""

    file: str | None = None
    axes: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def wrong(self, where: str, found: Any, expected: str) -> NoReturn:
        """Raise InputError on a field that is not what was expected."""
        # Lists may be long or deep: only their beginning is shown.
        shown = found if isinstance(found, str) else reprlib.repr(found)
        if len(shown) > 60:
            shown = f"{shown[:57]}..."
        self.fail(where, f"is {shown}, expected {expected}")

    def fail(self, where: str, message: str) -> NoReturn:
        """Raise InputError on a field."""
        raise InputError(message, file=self.file, field=where or "document")


@dataclass(frozen=True, kw_only=True)
class Value:
    """A value of a document.

    Attributes
    ----------
    about
        A sentence for the schema; "" if the name says all.
    optional, null
        Whether the key may be missing, and whether it may be null: None in memory.
    """

    about: str = ""
    optional: bool = False
    null: bool = False

    def read(self, value: Any, where: str, document: Document) -> Any:
        """Return what JSON data means; InputError names its field, ``where``."""
        raise NotImplementedError

    def write(self, value: Any, document: Document) -> Any:
        """Return the JSON data that ``read`` reads."""
        return value


@dataclass(frozen=True, kw_only=True)
class Flag(Value):
    """True or false."""

    def read(self, value: Any, where: str, document: Document) -> bool:
        """Return the value."""
        if not isinstance(value, bool):
            document.wrong(where, value, "true or false")
        return value


@dataclass(frozen=True, kw_only=True)
class Text(Value):
    """Text that is not empty."""

    def read(self, value: Any, where: str, document: Document) -> str:
        """Return the text."""
        if not isinstance(value, str) or not value:
            document.wrong(where, value, "text")
        return value


@dataclass(frozen=True, kw_only=True)
class Positive(Value):
    """A finite number above 0."""

    def read(self, value: Any, where: str, document: Document) -> float:
        """Return the number."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and math.isfinite(value) and value > 0):
            document.wrong(where, value, "a number above 0")
        return float(value)


@dataclass(frozen=True, kw_only=True)
class Whole(Value):
    """A whole number from ``least`` to ``most``."""

    least: int = 0
    most: int = LARGEST

    def read(self, value: Any, where: str, document: Document) -> int:
        """Return the number."""
        if isinstance(value, bool) or not isinstance(value, int) or value < self.least:
            document.wrong(where, value, f"a whole number of at least {self.least}")
        if value > self.most:
            document.wrong(where, value, f"at most {self.most}")
        return value


@dataclass(frozen=True)
class OneOf(Value):
    """One of some words."""

    words: tuple[str, ...]

    def read(self, value: Any, where: str, document: Document) -> str:
        """Return the word."""
        if value not in self.words:
            document.wrong(where, value, f"one of {', '.join(self.words)}")
        return str(value)


@dataclass(frozen=True)
class Index(Value):
    """A word in JSON, in memory its place among some words, or along an axis."""

    of: str | tuple[str, ...]

    def words(self, document: Document) -> tuple[str, ...]:
        """Return the words to choose from."""
        return document.axes[self.of] if isinstance(self.of, str) else self.of

    def read(self, value: Any, where: str, document: Document) -> int:
        """Return the word's place."""
        words = self.words(document)
        return words.index(OneOf(words).read(value, where, document))

    def write(self, value: int, document: Document) -> str:
        """Return the word."""
        return self.words(document)[value]


@dataclass(frozen=True)
class Row(Value):
    """A list of values, in memory a tuple.

    Attributes
    ----------
    least, most
        Numbers of values that it may have; None: any.
    along
        The axis that it has as many values as; None: of no axis.
    axis
        The axis that it is: by names, if its values are records that have them. All
        differ.
    """

    of: Value
    least: int = 0
    most: int | None = None
    along: str | None = None
    axis: str | None = None

    def read(self, value: Any, where: str, document: Document) -> tuple[Any, ...]:
        """Return the values."""
        if not isinstance(value, list):
            document.wrong(where, value, "a list")
        found = f"a list of {len(value)}" if value else "an empty list"
        if self.along is not None and len(value) != len(document.axes[self.along]):
            expected = len(document.axes[self.along])
            document.wrong(where, f"a list of {len(value)}", f"{expected}")
        if len(value) < self.least:
            document.wrong(where, found, f"at least {self.least}")
        if self.most is not None and len(value) > self.most:
            document.wrong(where, found, f"at most {self.most}")
        read = tuple(
            self.of.read(each, f"{where}.{place}", document)
            for place, each in enumerate(value)
        )
        if len(self._become_axis(read, document)) < len(read):
            document.wrong(where, value, "different values")
        return read

    def write(self, value: Any, document: Document) -> list[Any]:
        """Return the list."""
        self._become_axis(value, document)
        return [self.of.write(each, document) for each in value]

    def _become_axis(self, values: Any, document: Document) -> tuple[Any, ...]:
        """Set the axis that this is, if it is one; return what is not repeated."""
        if self.axis is None:
            return tuple(values)
        names = [
            each.get("name", (*each.values(),)) if isinstance(each, dict) else each
            for each in values
        ]
        document.axes[self.axis] = tuple(names)
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class Grid(Value):
    """Nested lists with a level for each axis, in memory an array of int64."""

    of: Whole | Index
    axes: tuple[str, ...]

    def read(self, value: Any, where: str, document: Document) -> NDArray[np.int64]:
        """Return the array."""
        shape = tuple(len(document.axes[axis]) for axis in self.axes)
        numbers = [
            self.of.read(each, f"{where} (entry {place})", document)
            for place, each in enumerate(_flat(value, where, shape, document))
        ]
        return np.array(numbers, dtype=np.int64).reshape(shape)

    def write(self, value: Any, document: Document) -> Any:
        """Return the lists."""
        if isinstance(self.of, Whole):
            return value.tolist()
        names = np.array(self.of.words(document), dtype=object)
        return names[value].tolist()


def _flat(
    value: Any, where: str, shape: tuple[int, ...], document: Document
) -> list[Any]:
    """Return the values of nested lists that have exactly this shape."""
    if not isinstance(value, list):
        document.wrong(where, value, f"lists of shape {list(shape)}")
    if len(value) != shape[0]:
        expected = counted(shape[0], "entry", "ies")
        document.wrong(where, f"a list of {len(value)}", expected)
    if len(shape) == 1:
        return value
    return [
        item
        for place, inner in enumerate(value)
        for item in _flat(inner, f"{where}.{place}", shape[1:], document)
    ]


@dataclass(frozen=True)
class ByName(Value):
    """An object with a value for each name of an axis, in memory in its order."""

    of: Value
    axis: str

    def read(self, value: Any, where: str, document: Document) -> list[Any]:
        """Return the values."""
        keys = dict.fromkeys(document.axes[self.axis], self.of)
        return [*Record(keys).read(value, where, document).values()]

    def write(self, value: Any, document: Document) -> dict[str, Any]:
        """Return the object."""
        return dict(zip(document.axes[self.axis], value, strict=True))


@dataclass(frozen=True)
class Record(Value):
    """An object with keys of its own, in memory a dict."""

    keys: Mapping[str, Value]

    def read(self, value: Any, where: str, document: Document) -> dict[str, Any]:
        """Return the values by key; None for those that are left out."""
        if not isinstance(value, dict):
            document.wrong(where, value, "an object")
        found: dict[str, Any] = {}
        for key, kind in self.keys.items():
            inside = f"{where}.{key}" if where else key
            if key not in value and not kind.optional:
                document.fail(inside, "is missing")
            given = value.get(key)
            absent = given is None and (kind.null or key not in value)
            found[key] = None if absent else kind.read(given, inside, document)
        return found

    def write(self, value: Mapping[str, Any], document: Document) -> dict[str, Any]:
        """Return the object; what is None is left out unless it may be null."""
        return {
            key: None if value[key] is None else kind.write(value[key], document)
            for key, kind in self.keys.items()
            if kind.null or value.get(key) is not None
        }
