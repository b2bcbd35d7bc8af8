"""Printing to standard output and standard error, even if they are closed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from hetopt.base import interruption
from hetopt.base.words import encodable, readable
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hetopt.report.drawing.sheet import Part


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


def told() -> Callable[[str], None]:
    """Return what shows a line of progress: on a terminal alone."""
    from hetopt.report.drawing.console import is_terminal

    return complain if is_terminal(sys.stderr) else lambda line: None


def json_text(data: Any) -> str:
    """Return plain data as the text that is printed and written."""
    return json.dumps(data, indent=2, allow_nan=False)


def report(
    data: Any, parts: Iterable[Part], *, as_json: bool, out: str | None = None
) -> None:
    """Print a report, or its data, which is also written if a file is named."""
    from hetopt.base.files import write_text
    from hetopt.report.drawing.console import draw

    text = json_text(data)
    emit(text if as_json else draw(parts, sys.stdout))
    if out is not None:
        write_text(out, text + "\n")
