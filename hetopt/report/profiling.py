"""The progress bar of a profile, with the time left, on a terminal only."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Self

from hetopt.report.console import is_terminal

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from hetopt.profile.measuring import Progress


class ProfilingBar:
    """Shows measured shards, what is measured now, and the time left.

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
            self._task = self._bar.add_task("", total=None, state="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, progress: Progress) -> None:
        """Show the state of the profile."""
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task,
                completed=progress.work_done,
                total=progress.work_total,
                state=state(progress),
            )


def state(progress: Progress) -> str:
    """Return counts and the shard at hand in a few words."""
    from hetopt.profile.measuring import shape_label

    counts = f"{progress.done}/{progress.total} shards"
    if progress.shape is None:
        return counts
    return f"{counts}, {shape_label(progress.shape)}"


def _bar(stream: IO[str]) -> Bar:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bar

    return Bar(
        BarColumn(bar_width=20),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[state]}", markup=False),
        console=Console(
            file=stream, no_color="NO_COLOR" in os.environ or None, highlight=False
        ),
        transient=True,
        refresh_per_second=2,
        # Shards differ a lot in length: the time left follows the last minutes.
        speed_estimate_period=180,
    )
