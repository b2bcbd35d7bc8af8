"""The progress of searches, of compiling them, and of a command's steps."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from hetopt.report.drawing.bar import ShownProgress
from hetopt.report.summary import gap_text

if TYPE_CHECKING:
    from hetopt.solvers.progress import Progress


class ProgressBar(ShownProgress):
    """Shows settled programs, incumbent, bound and gap while a search runs."""

    DOING = "searching"
    BEGINNING = "reading the table"

    def update(self, progress: Progress) -> None:
        """Show the state of the search; safe to call often."""
        settled, programs = progress.settled, progress.programs
        counts = f"{settled} of {programs} programs settled"
        self.show(settled, programs, f"{counts}, {state(progress)}")


class CompilingBar(ShownProgress):
    """Shows how many functions are compiled."""

    DOING = "compiling"
    BEGINNING = "starting"

    def update(self, done: int, count: int) -> None:
        """Show how many of all functions are compiled."""
        self.show(done, count, f"{done} of {count} functions")


class StepBar(ShownProgress):
    """Shows which step of a command runs.

    Parameters
    ----------
    doing
        What the command does, in a participle.
    """

    def __init__(self, stream: IO[str] | None, doing: str) -> None:
        super().__init__(stream)
        self.DOING = doing

    def update(self, step: str) -> None:
        """Show the step that begins."""
        self.show(0, None, step)


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
