"""The progress bar of a search, on a terminal only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.report.drawing.bar import TerminalBar
from hetopt.report.summary import gap_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import ProgressColumn

    from hetopt.solvers.progress import Progress


class ProgressBar(TerminalBar):
    """Shows settled programs, incumbent, bound and gap while a search runs."""

    BEGINNING = "reading the table"

    def columns(self) -> Sequence[ProgressColumn]:
        """Return the programs that are done and the time taken."""
        from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn

        return (
            MofNCompleteColumn(),
            TextColumn("settled"),
            TimeElapsedColumn(),
        )

    def update(self, progress: Progress) -> None:
        """Show the state of the search; safe to call often."""
        self.show(progress.settled, progress.programs, state(progress))


class CompilingBar(TerminalBar):
    """Shows how many functions are compiled."""

    BEGINNING = "starting"

    def columns(self) -> Sequence[ProgressColumn]:
        """Return the functions that are compiled and the time taken."""
        from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn

        return MofNCompleteColumn(), TextColumn("functions"), TimeElapsedColumn()

    def update(self, done: int, count: int) -> None:
        """Show how many of all functions are compiled."""
        self.show(done, count, "")


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
