"""What hetopt asks of a launcher, and what a launcher may say it cannot do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hetopt.export.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Something a plan says and a runtime cannot do.

    Attributes
    ----------
    what
        What the plan asks for, with the values, and what the runtime allows.
    instead
        What the files say in its place where the user allows losses; None: without
        it there is nothing to launch, and the plan is refused whatever is allowed.
    """

    what: str
    instead: str | None


class Launcher(Protocol):
    """Writes plans for one runtime.

    Attributes
    ----------
    name
        As in ``--to``.
    title
        The runtime's own name.
    """

    name: str
    title: str

    def losses(self, job: Job) -> Iterable[Loss]:
        """Yield everything of a job that would be lost; nothing if it is exact."""
        ...

    def files(self, job: Job) -> Mapping[str, str]:
        """Return the bundle's files by relative path.

        Called only where no loss is without an ``instead``. Paths ending in ``.sh``
        become executable. ``README.md``'s section on how to launch is
        ``commands``; the rest of the README, ``ranks.csv``, ``hostfile`` and
        ``LOSSY.md`` are added for every launcher (a launcher's own file of one of
        these names takes its place).
        """
        ...

    def commands(self, job: Job) -> str:
        """Return in Markdown what to edit, where to copy the folder, what to run."""
        ...
