"""How often Python looks for garbage in processes of hetopt's own."""

from __future__ import annotations

import gc

#: Objects made between two searches for garbage.
_OBJECTS = 50_000


def collect_rarely() -> None:
    """Look for garbage less often than Python does by itself.

    Most objects of a command live as long as it does: at Python's rate, a tenth of a
    short command is spent on looking at them.
    """
    gc.set_threshold(_OBJECTS)
