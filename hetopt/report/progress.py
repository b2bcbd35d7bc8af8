"""The progress bar of a search, on a terminal only."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Self

from hetopt.report.console import is_terminal
from hetopt.report.summary import gap_text

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from hetopt.solvers.progress import Progress


class ProgressBar:
    """Shows settled programs, incumbent, bound and gap while a search runs.

    Parameters
    ----------
    stream
        Usually standard error; anything but a terminal gets nothing.
    """

    def __init__(self, stream: IO[str] | None) -> None:
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        if stream is not None and is_terminal(stream):
            self._bar = _bar(stream)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("", total=None, state="reading the table")
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

    def update(self, progress: Progress) -> None:
        """Show the state of the search; safe to call often."""
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task,
                completed=progress.settled,
                total=progress.programs,
                state=state(progress),
            )

    def count(self, done: int, programs: int, what: str) -> None:
        """Show how many programs are done, and what is done to them."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=programs, state=what)


def state(progress: Progress) -> str:
    """Return incumbent, bound and gap in a few words."""
    parts = []
    if progress.incumbent_s is None:
        parts.append("no plan yet")
    else:
        parts.append(f"best {progress.incumbent_s:.4f} s")
    if progress.bound_s is not None:
        parts.append(f"bound {progress.bound_s:.4f} s")
    if progress.gap is not None:
        parts.append(f"gap {gap_text(progress.gap)}")
    return ", ".join(parts)


def _bar(stream: IO[str]) -> Bar:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.progress import Progress as Bar

    return Bar(
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("programs"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[state]}", markup=False),
        console=Console(
            file=stream, no_color="NO_COLOR" in os.environ or None, highlight=False
        ),
        transient=True,
        refresh_per_second=5,
    )
