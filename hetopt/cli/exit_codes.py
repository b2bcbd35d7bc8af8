"""The exit codes of commands, beside 0: done."""

from __future__ import annotations

#: There is no feasible plan, or a check failed.
NO_PLAN = 1
#: What the user wrote is wrong.
BAD_INPUT = 2
#: The command was stopped before it had anything to show.
STOPPED = 3
