"""A file of JSON values, one per line, each appended as soon as it is known.

If its writer is killed, at most a half-written line is lost, which the next writer cuts
off.
"""

from __future__ import annotations

import json
import os
from typing import Any

from hetopt.base.reading import MOST_BYTES, read_bytes
from hetopt.errors import InputError


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
        self.path = path
        self.failure: InputError | None = None
        there = os.path.lexists(path)
        self._content = read_bytes(path, what, most_bytes) if there else b""
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            reason = error.strerror or str(error)
            msg = f"cannot be opened: {reason}"
            raise InputError(msg, file=path) from error

    def read(self) -> tuple[list[bytes], bytes]:
        """Return the whole lines at the start, and what followed the last one."""
        *lines, torn = self._content.split(b"\n")
        return lines, torn

    def cut(self, torn: bytes) -> None:
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
