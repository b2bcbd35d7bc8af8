"""A progress bar on a terminal; elsewhere a line of progress now and then."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Self

from hetopt.report.drawing.console import is_terminal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from rich.progress import Progress, ProgressColumn, TaskID


class ShownProgress:
    """Shows what is being done, how far it is, and a state in words.

    A terminal gets a bar, which is removed at the end; a file or a pipe gets a line
    every ``EVERY_S`` seconds, and so none of what takes less.

    Parameters
    ----------
    stream
        Usually standard error; None: nothing is shown.
    """

    #: What is being done, in the lines of a file or a pipe.
    DOING = ""
    #: Seconds between two such lines.
    EVERY_S = 30.0
    #: The state shown before the first ``show``.
    BEGINNING = ""
    REFRESHES_PER_S = 5
    #: Seconds of progress from which the remaining time is estimated.
    PERIOD_S = 30.0

    def __init__(self, stream: IO[str] | None) -> None:
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._stream = stream
        self._state = self.BEGINNING
        self._ended = threading.Event()
        self._lines = threading.Thread(target=self._write_lines, daemon=True)
        if stream is not None and is_terminal(stream):
            self._bar = self._made(stream)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("", total=None, state=self.BEGINNING)
        elif self._stream is not None:
            self._lines.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            # The terminal may be closed by now.
            with suppress(OSError):
                self._bar.stop()
        elif self._stream is not None:
            self._ended.set()
            # Not for ever: nobody may read the pipe that it writes to.
            self._lines.join(1.0)

    def columns(self) -> Sequence[ProgressColumn]:
        """Return the columns between the bar and the state: the time taken."""
        from rich.progress import TimeElapsedColumn

        return (TimeElapsedColumn(),)

    def show(self, done: float, total: float | None, state: str) -> None:
        """Show the progress; safe to call often."""
        self._state = state
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=total, state=state)

    def _write_lines(self) -> None:
        """Write a line now and then until the end: what the thread does."""
        began = time.monotonic()
        while not self._ended.wait(self.EVERY_S):
            line = f"{self.DOING}, {time.monotonic() - began:.0f} s: {self._state}"
            # The file may be closed by now.
            with suppress(OSError, ValueError):
                print(line, file=self._stream, flush=True)

    def _made(self, stream: IO[str]) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        return Progress(
            BarColumn(bar_width=20),
            *self.columns(),
            TextColumn("{task.fields[state]}", markup=False),
            console=Console(
                file=stream, no_color="NO_COLOR" in os.environ or None, highlight=False
            ),
            transient=True,
            refresh_per_second=self.REFRESHES_PER_S,
            speed_estimate_period=self.PERIOD_S,
        )
