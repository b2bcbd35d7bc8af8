"""How many threads a process computes with, on a CPU."""

from __future__ import annotations

import os

from hetopt.errors import InputError

#: The variable that PyTorch and torchrun read, and its value where it is not set:
#: what torchrun sets if it starts several processes on a node. With one process it
#: sets nothing, and PyTorch would use all cores.
THREADS = "OMP_NUM_THREADS"
UNSET = 1


def threads() -> int:
    """Return the threads of profiles and of the ranks that are compared with them.

    Raises
    ------
    InputError
        The variable is no whole number above 0.
    """
    text = os.environ.get(THREADS) or str(UNSET)
    # Of a list, as OpenMP permits, the first number is that of the outermost level.
    text = text.partition(",")[0].strip()
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        msg = f"is {text!r}, expected a whole number above 0"
        raise InputError(msg, field=THREADS)
    return int(text)
