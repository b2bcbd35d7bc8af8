"""A progress bar of one line, on a terminal only."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Self

from hetopt.report.drawing.console import is_terminal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from rich.progress import Progress, ProgressColumn, TaskID


class TerminalBar:
    """A bar, columns of a subclass, and a state in words; removed at the end.

    Parameters
    ----------
    stream
        Usually standard error; nothing is written unless it is a terminal.
    """

    #: The state shown before the first ``show``.
    BEGINNING = ""
    REFRESHES_PER_S = 5
    #: Seconds of progress from which the remaining time is estimated.
    PERIOD_S = 30.0

    def __init__(self, stream: IO[str] | None) -> None:
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        if stream is not None and is_terminal(stream):
            self._bar = self._made(stream)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("", total=None, state=self.BEGINNING)
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

    def columns(self) -> Sequence[ProgressColumn]:
        """Return the columns between the bar and the state."""
        raise NotImplementedError

    def show(self, done: float, total: float, state: str) -> None:
        """Show the progress; safe to call often."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=total, state=state)

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
