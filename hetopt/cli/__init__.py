"""The command line: one module per command.

Signal handlers are installed before anything else is imported, so that hetopt always
ends in an orderly way.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from hetopt.base import garbage, interruption
from hetopt.cli.exit_codes import STOPPED

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None, *, last: bool = False) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    arguments
        Arguments after ``hetopt``; by default those of the process.
    last
        Whether the process ends after it: signals are then ignored at its end.
    """
    interruption.install()
    try:
        with interruption.released():
            from hetopt.cli.entry import run_command

            return run_command(arguments)
    except KeyboardInterrupt:
        from hetopt.cli.output import complain

        complain("stopped: interrupted")
        return STOPPED
    finally:
        interruption.remove(ignore=last)


def process() -> int:
    """Run the command of this process."""
    garbage.collect_rarely()
    code = main(last=True)
    # Without it, the garbage collection at exit takes a third of a second.
    gc.freeze()
    return code


__all__ = ["main", "process"]
