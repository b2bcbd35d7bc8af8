"""A search as commands begin it: compiled first, then under a progress bar."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hetopt.base import interruption
from hetopt.cli.preparing import prepare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.planning.posed import Posed
    from hetopt.solvers.request import Request


@contextmanager
def searching(posed: Posed) -> Iterator[Request]:
    """Yield the request of a search, and show the search's progress.

    What the search needs is compiled first, before its clock starts. From then on a
    signal ends only the search; what follows it is completed.
    """
    from hetopt.report.progress import ProgressBar

    prepare(posed.kernels, posed.asked.jobs)
    interruption.hold()
    with ProgressBar(sys.stderr) as bar:
        yield posed.request(bar.update)
