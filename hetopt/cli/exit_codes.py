"""The exit codes of commands other than 0, which means done."""

from __future__ import annotations

#: There is no feasible plan, or a check failed.
NO_PLAN = 1
#: The user's input is wrong.
BAD_INPUT = 2
#: The command was stopped before it had a result.
STOPPED = 3
