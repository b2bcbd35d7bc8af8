"""Printing to standard output and standard error, even if they are closed."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from hetopt.base import interruption
from hetopt.base.words import encodable, readable
from hetopt.errors import InputError


def emit(text: str) -> None:
    """Print ``text``; a closed pipe is no error.

    Raises
    ------
    InputError
        Standard output cannot be written, for example because its disk is full.
    """
    stream = sys.stdout
    if stream is None:
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    line = encodable(text if text.endswith("\n") else text + "\n")
    try:
        stream.write(line.encode(encoding, "replace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        discard_output()
    except OSError as error:
        discard_output()
        if interruption.requested() == getattr(signal, "SIGHUP", None) is not None:
            # The terminal was closed: nobody reads this, but files are still written.
            return
        reason = error.strerror or str(error)
        msg = f"cannot be written: {reason}"
        raise InputError(msg, file="standard output") from error


def discard_output() -> None:
    """Redirect standard output to the null device, so that the flush at exit works."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def complain(*lines: str) -> None:
    """Print each message as one line on standard error."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError):
        for line in lines:
            print(readable(" ".join(line.split("\n"))), file=sys.stderr)
