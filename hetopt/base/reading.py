"""Read files that a user names, of any kind.

A file is refused before it is opened if it is a folder, a device or a socket, and
before it is parsed if it is larger than any such file. A pipe, as from ``<(command)``
or ``/dev/stdin``, is read to its end; a pipe that nobody writes to is refused.
"""

from __future__ import annotations

import json
import os
import re
import select
import stat
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hetopt.errors import CheckError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB = 2**20
#: Largest file of any kind: a table of some hundred thousand strategies.
MOST_BYTES = 128 * MIB
#: Largest file of lines: profiles, lists of hosts.
MOST_TEXT_BYTES = 16 * MIB
#: Memory that the values of a JSON file may take once they are read.
MOST_VALUE_BYTES = 640 * MIB
#: Most digits of a number; a digest of 64 characters may consist of digits only.
MOST_DIGITS = 64

#: Seconds to wait for a writer of a pipe.
_WRITER_S = 1.0
#: Memory of a value, and of a mapping beside its values, in CPython.
_VALUE_BYTES = 64
_MAPPING_BYTES = 256
#: One half of a character in JSON, where the other does not stand beside it.
_HALF = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (MOST_DIGITS + 1))


def read_bytes(
    path: str | Path, what: str = "a file", most_bytes: int = MOST_BYTES
) -> bytes:
    """Return a file's content.

    Parameters
    ----------
    what
        What the file should be, with its article, for errors.
    most_bytes
        A larger file is refused without reading it.

    Raises
    ------
    InputError
        The file does not exist, is neither a file nor a pipe, is a pipe that nobody
        writes to, is too large, or cannot be read.
    """
    name = str(path)
    try:
        status = os.stat(name)
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"is a directory, expected {what}", file=name)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
            raise InputError(f"is a device, expected {what}", file=name)
        content = b""
        if status.st_size <= most_bytes:
            # Opening a pipe that nobody writes to would otherwise wait for a writer.
            handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                content = _content(handle, most_bytes)
            finally:
                os.close(handle)
    except FileNotFoundError:
        raise InputError("no such file", file=name) from None
    except (OSError, ValueError) as error:
        # ValueError: the name has a character that is not allowed.
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason}", file=name) from None
    if max(len(content), status.st_size) > most_bytes:
        raise too_large(name, what, most_bytes)
    if stat.S_ISFIFO(status.st_mode) and not content:
        msg = f"is an empty pipe, expected {what}"
        raise InputError(msg, file=name)
    return content


@contextmanager
def named(path: str) -> Iterator[None]:
    """Add a file to errors that name only a field of it."""
    try:
        yield
    except CheckError as error:
        findings = [f"{path}: {finding}" for finding in error.findings]
        raise CheckError(findings) from error
    except InputError as error:
        if error.file is not None:
            raise
        raise type(error)(error.message, file=path, field=error.field) from error


def is_there(path: Path) -> bool:
    """Whether a path exists; one that is too long to be a path does not."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def too_large(name: str, what: str, most_bytes: int) -> InputError:
    """Return the error about a file that is larger than any such file."""
    size = f"{most_bytes // MIB} MiB" if most_bytes >= MIB else f"{most_bytes} bytes"
    return InputError(f"is larger than {size}, expected {what}", file=name)


def read_text(
    path: str | Path, what: str = "text", most_bytes: int = MOST_TEXT_BYTES
) -> str:
    """Return the text of a UTF-8 file, without a byte order mark; see ``read_bytes``.

    Raises
    ------
    InputError
        As ``read_bytes``; the file is not UTF-8 text (with the line).
    """
    return decoded(read_bytes(path, what, most_bytes), str(path), what)


def decoded(content: bytes, name: str, what: str) -> str:
    """Return UTF-8 text; InputError with the line of the first byte that is not."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        msg = f"byte {content[error.start]:#04x} is not UTF-8 text, expected {what}"
        raise InputError(msg, file=name, line=line) from None


def read_json(path: str | Path, what: str) -> Any:
    """Return the value in a JSON file; see ``read_bytes`` and ``parse_json``."""
    return parse_json(read_bytes(path, what), str(path), what)


def parse_json(content: bytes, name: str, what: str) -> Any:
    """Return the value of JSON text.

    Raises
    ------
    InputError
        It is not JSON, or its values would take too much memory.
    """
    mappings = content.count(b"{")
    others = content.count(b",") + content.count(b"[")
    if mappings * _MAPPING_BYTES + others * _VALUE_BYTES > MOST_VALUE_BYTES:
        raise InputError(f"holds too many values, expected {what}", file=name)
    number = _LONG_NUMBER.search(content)
    if number is not None:
        line = content.count(b"\n", 0, number.start()) + 1
        msg = f"has a number of more than {MOST_DIGITS} digits"
        raise InputError(msg, file=name, line=line)
    text = decoded(content, name, what)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        msg = f"is not JSON: {error.msg}"
        raise InputError(msg, file=name, line=error.lineno) from None
    except RecursionError:
        msg = f"is nested too deeply, expected {what}"
        raise InputError(msg, file=name) from None
    if _HALF.search(text):
        _ensure_characters(value, text, name)
    return value


def _ensure_characters(value: Any, text: str, name: str) -> None:
    """Raise InputError if a string has one half of a character alone."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        half = _HALF.search(text)
        assert half is not None
        line = text.count("\n", 0, half.start()) + 1
        msg = f"has {half[0]}, which is half of a character, expected text"
        raise InputError(msg, file=name, line=line) from None


def _content(handle: int, most_bytes: int) -> bytes:
    """Return what an open file holds, or somewhat more than ``most_bytes`` of it."""
    parts: list[bytes] = []
    size = 0
    patience_s = time.monotonic() + _WRITER_S
    pipe = stat.S_ISFIFO(os.fstat(handle).st_mode)
    while size <= most_bytes:
        try:
            part = os.read(handle, MIB)
        except BlockingIOError:
            # The pipe has a writer, which has not written anything yet.
            select.select([handle], [], [])
            continue
        if part:
            parts.append(part)
            size += len(part)
        elif size or not pipe or time.monotonic() > patience_s:
            break
        else:
            # Shells without /dev/fd start writer and reader at the same time.
            time.sleep(0.02)
    return b"".join(parts)
