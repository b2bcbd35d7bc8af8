"""Compiles ``dp`` in the background, for later runs, after a run did without it.

The process outlives the one that started it, takes only what other processes leave
idle, and ends when everything is compiled, after about half a minute. Only one works
at a time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

from hetopt.compiled import kept_folder

#: Held by the process that compiles.
_LOCK = "compiling.lock"


def compile_later() -> bool:
    """Start that process; False where it could not keep what it compiles."""
    folder = kept_folder()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if os.name != "posix" or not os.access(folder, os.W_OK):
        return False
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    # Nobody waits for it: Python would complain that it still runs.
    process.returncode = 0
    return True


def _compile() -> None:
    import fcntl

    from hetopt.problem.training import SCHEDULES
    from hetopt.solvers.side_by_side import Entry, warm_up

    os.nice(19)
    with (kept_folder() / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        # Under any schedule the same is compiled.
        warm_up(Entry(solver="dp", time_limit_s=None), SCHEDULES[0])


if __name__ == "__main__":
    _compile()
