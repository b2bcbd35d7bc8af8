"""A file that remembers: one JSON value per line, each appended as soon as it is known.

Whoever kills its writer loses at most a line half written, which the next one cuts
off.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hetopt.errors import InputError


class LineFile:
    """A file of JSON lines, open for appending.

    Parameters
    ----------
    path
        Made if it does not exist.

    Attributes
    ----------
    failure
        Why nothing more is appended, such as a full disk.

    Raises
    ------
    InputError
        The file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.failure: InputError | None = None
        if Path(path).exists() and not Path(path).is_file():
            # Reading a device may never end.
            raise InputError("cannot be opened: it is no file", file=path)
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            reason = error.strerror or str(error)
            msg = f"cannot be opened: {reason}"
            raise InputError(msg, file=path) from error

    def read(self) -> tuple[list[bytes], bytes]:
        """Return the whole lines, and what follows the last one."""
        *lines, torn = Path(self.path).read_bytes().split(b"\n")
        return lines, torn

    def cut(self, torn: bytes) -> None:
        """Cut the end off."""
        if torn:
            os.ftruncate(self._file, os.fstat(self._file).st_size - len(torn))

    def append(self, entry: Any) -> None:
        """Append a line; where that fails, ``failure`` says why."""
        if self.failure is not None:
            return
        line = (json.dumps(entry) + "\n").encode()
        try:
            # One write: a line is there or it is not, but for a kill in between.
            if os.write(self._file, line) == len(line):
                return
            reason = "no space for a whole line"
        except OSError as error:
            reason = error.strerror or str(error)
        msg = f"cannot be written: {reason}; what was found since is not in it"
        self.failure = InputError(msg, file=self.path)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
