"""The progress of profiling, on a terminal with the remaining time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.report.drawing.bar import ShownProgress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import ProgressColumn

    from hetopt.profile.task_loop import MeasuringProgress


class ProfilingBar(ShownProgress):
    """Shows how much was measured, the current task, and the remaining time."""

    DOING = "measuring"
    REFRESHES_PER_S = 2
    # Tasks differ a lot in length, so the estimate uses the last minutes.
    PERIOD_S = 180.0

    def columns(self) -> Sequence[ProgressColumn]:
        """Return the share that is done, the elapsed and the remaining time."""
        from rich.progress import TextColumn, TimeElapsedColumn, TimeRemainingColumn

        return (
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )

    def update(self, progress: MeasuringProgress) -> None:
        """Show the state of the profile."""
        self.show(progress.work_done, progress.work_total, state(progress))


def state(progress: MeasuringProgress) -> str:
    """Return the counts and the current task in a few words."""
    counts = f"{progress.done}/{progress.total} {progress.what}"
    return counts if progress.label is None else f"{counts}, {progress.label}"
