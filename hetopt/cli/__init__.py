"""The command line: one module per command.

Signals are taken over before anything else is imported: whenever one comes, hetopt
has the last word.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from hetopt.base import interruption
from hetopt.cli import clock
from hetopt.cli.exit_codes import STOPPED

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None, *, last: bool = False) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    arguments
        What stands after ``hetopt``; the process's own arguments by default.
    last
        Whether the process ends with it: signals are then ignored from there on.
    """
    clock.begin()
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
    code = main(last=True)
    # Python looks for garbage among all that is left, for a third of a second.
    gc.freeze()
    return code


__all__ = ["main", "process"]
