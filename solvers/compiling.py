"""Has what searches need compiled in a process of its own, which may outlive the run.

``dp``, and the search of simulated times that is made unless somebody says, are
compiled for later runs, after one did without them: that takes only what other
processes leave idle. The very first run has half of what bounds programs compiled
while it builds its table and compiles the other half. What a search of simulated times
that somebody asked for cannot do without is waited for while the time limit lasts; if
that is too short, a later run finds it.

A process ends when everything is compiled, after about half a minute. Of each kind
only one works at a time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from hetopt.base.machine_code import are_kept, kept_folder

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.base.deadline import Deadline

#: What can be compiled apart: ``dp``, half of what bounds programs, or what a search of
#: simulated times needs, where warm-up counts follow from the schedule or are free.
What = Literal["dp", "sums", "simulated", "simulated-free"]

#: The program of that process; what it compiles is beyond this module.
_PROGRAM = "hetopt.solvers.compile_searches"
#: Says that the process is not waited for.
LATER = "later"
#: Where that half is.
_SUMS = "hetopt.solvers.bounds.sums"
#: Where a search of simulated times has its kernels; the last is for free warm-ups.
_SIMULATED = tuple(
    f"hetopt.solvers.simulated.{name}"
    for name in ("bounds", "runs", "fills", "walk", "warmups")
)


def compile_later(what: What = "dp") -> bool:
    """Have something compiled; False where what is compiled could not be kept."""
    if not _can_keep():
        return False
    import fcntl

    with suppress(OSError), lock_path(what).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # A process is at it, perhaps for long: it has only what others leave idle.
            return True
        # The new process inherits the lock, and holds it to its end.
        process = _start(what, LATER, held=(lock.fileno(),))
        # Nobody waits for it: Python would complain that it still runs.
        process.returncode = 0
        return True
    return False


def compile_beside() -> None:
    """Have half of what bounds programs compiled, on the very first run.

    Who needs it before it is there compiles it again.
    """
    if (os.cpu_count() or 1) > 1 and not are_kept(_SUMS) and _can_keep():
        with suppress(OSError):
            _start("sums").returncode = 0


def is_simulated_compiled(deadline: Deadline, *, free: bool) -> bool:
    """Whether a search of simulated times is compiled before the time is up.

    Compiling cannot be ended on time in the process that searches. What is started
    goes on after the deadline. Without a limit, and where nothing can be kept, the
    search may as well compile for itself: then this is True at once.

    Parameters
    ----------
    free
        Whether warm-up counts are chosen with the rest.
    """
    left_s = deadline.left_s()
    if left_s is None or are_times_kept(free=free):
        return True
    if not _can_keep():
        return True
    try:
        process = _start(_times(free))
    except OSError:
        return True
    try:
        process.wait(max(left_s, 0.0))
    except subprocess.TimeoutExpired:
        return False
    finally:
        process.returncode = 0
    return True


def are_times_kept(*, free: bool) -> bool:
    """Whether a search of simulated times finds compiled what it needs.

    Parameters
    ----------
    free
        Whether warm-up counts are chosen with the rest.
    """
    return all(are_kept(each) for each in (_SIMULATED if free else _SIMULATED[:-1]))


def times_later(*, free: bool) -> bool:
    """Have a search of simulated times compiled; see ``compile_later``."""
    return compile_later(_times(free))


def _times(free: bool) -> What:
    return "simulated-free" if free else "simulated"


def lock_path(what: What) -> Path:
    """Return the file that is locked by the process that compiles."""
    return kept_folder() / f"compiling-{what}.lock"


def _can_keep() -> bool:
    """Whether what another process compiles could be kept for this one."""
    folder = kept_folder()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return os.name == "posix" and os.access(folder, os.W_OK)


def _start(
    what: What, *how: str, held: tuple[int, ...] = ()
) -> subprocess.Popen[bytes]:
    """Start a process that compiles, apart from what ends this one."""
    return subprocess.Popen(
        [sys.executable, "-m", _PROGRAM, what, *how],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=held,
    )
