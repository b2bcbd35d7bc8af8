"""A file of JSON values, one per line, each appended as soon as it is known.

If its writer is killed, at most a half-written line is lost, which the next writer cuts
off.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from hetopt.base.reading import MOST_BYTES, read_bytes
from hetopt.base.words import describe
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_REMEDY = "use another file, or delete this one"
#: Characters of a value that an error shows.
_LONGEST = 100


class LineFile:
    """A file of JSON lines, open for appending.

    Parameters
    ----------
    path
        Path of the file, which is created if it does not exist.
    what
        What the file should be, with its article, for errors.
    most_bytes
        A larger file is refused without reading it.

    Attributes
    ----------
    failure
        Why nothing more is appended, such as a full disk; None: lines are appended.

    Raises
    ------
    InputError
        The file cannot be read or opened; see ``read_bytes``.
    """

    def __init__(self, path: str, what: str, most_bytes: int = MOST_BYTES) -> None:
        self.path, self._what = path, what
        self.failure: InputError | None = None
        there = os.path.lexists(path)
        self._content = read_bytes(path, what, most_bytes) if there else b""
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            reason = error.strerror or str(error)
            msg = f"cannot be opened: {reason}"
            raise InputError(msg, file=path) from error

    def resume(self, header: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
        """Yield numbers and values of the lines that follow the header, from 2.

        An empty file gets the header. A half-written line at the end is cut off when
        all others have been taken.

        Parameters
        ----------
        header
            The value of the first line.

        Raises
        ------
        InputError
            The first line has another value, a line has none, or nothing can be
            written.
        """
        header = json.loads(json.dumps(header))
        *lines, torn = self._content.split(b"\n")
        if not lines and json.dumps(header).encode().startswith(torn):
            self._cut(torn)
            self.append(header)
            if self.failure is not None:
                raise self.failure
            return
        for number, line in enumerate(lines or [torn], start=1):
            try:
                value = json.loads(line)
            except (RecursionError, ValueError) as error:
                raise self.wrong(number, error) from error
            if number > 1:
                yield number, value
            elif value != header:
                raise self._of_other(value, header)
        self._cut(torn)

    def wrong(self, number: int, why: object) -> InputError:
        """Return the error of a line that is none of this file."""
        msg = f"is not a line of {self._what} ({why}): {_REMEDY}"
        return InputError(msg, file=self.path, line=number)

    def _of_other(self, found: Any, header: Mapping[str, Any]) -> InputError:
        """Return the error of a first line that is not the header."""
        if not isinstance(found, dict):
            return self.wrong(1, f"{describe(found)} is no mapping")
        key = next(x for x in (*header, *found) if found.get(x) != header.get(x))
        own, expected = found.get(key), header.get(key)
        msg = (
            f"{key} is {_short(own)}, but this search has {_short(expected)}: {_REMEDY}"
        )
        return InputError(msg, file=self.path, line=1)

    def _cut(self, torn: bytes) -> None:
        """Cut off the half-written line at the end."""
        if torn:
            os.ftruncate(self._file, os.fstat(self._file).st_size - len(torn))

    def append(self, entry: Any) -> None:
        """Append a line; if that fails, ``failure`` tells why."""
        if self.failure is not None:
            return
        line = (json.dumps(entry) + "\n").encode()
        try:
            # One write, so that a line is whole unless the process is killed during it.
            if os.write(self._file, line) == len(line):
                return
            reason = "no space for a whole line"
        except OSError as error:
            reason = error.strerror or str(error)
        msg = f"cannot be written: {reason}; later results are not in it"
        self.failure = InputError(msg, file=self.path)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
