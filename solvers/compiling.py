"""Compile the kernels of searches in a separate process, which may outlive the run.

``dp``, and the search for the least simulated time that runs by default, are compiled
for later runs, after a run that did without them; this has the lowest priority. The
very first run has half of the kernels of the bounds compiled while it builds its table
and compiles the other half. If the user asks for the least simulated time, the run
waits for them within its time limit; if that is too short, a later run uses them.

A process ends when everything is compiled, after about half a minute. Only one process
of each kind compiles at a time.
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

#: Kernels that can be compiled separately: of ``dp``, half of those of the bounds, or
#: those for simulated times, with warm-up counts given by the schedule or free.
What = Literal["dp", "sums", "simulated", "simulated-free"]

#: The program that the process runs.
_PROGRAM = "hetopt.solvers.compile_searches"
#: Argument of the program: no process waits for it.
LATER = "later"
#: The module with that half of the bounds.
_SUMS = "hetopt.solvers.bounds.sums"
#: Modules with the kernels for simulated times; the last is for free warm-ups.
_SIMULATED = tuple(
    f"hetopt.solvers.simulated.{name}"
    for name in ("bounds", "runs", "fills", "walk", "warmups")
)


def compile_later(what: What = "dp") -> bool:
    """Start compiling in the background; return False if the code cannot be kept."""
    if not _can_keep():
        return False
    import fcntl

    with suppress(OSError), lock_path(what).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Another process is compiling, perhaps for long due to its priority.
            return True
        # The new process inherits the lock, and holds it until it ends.
        process = _start(what, LATER, held=(lock.fileno(),))
        # No one waits for it: without a return code, Python warns that it still runs.
        process.returncode = 0
        return True
    return False


def compile_beside() -> None:
    """Start compiling half of the kernels of the bounds, on the very first run.

    A process that needs them earlier compiles them again.
    """
    if (os.cpu_count() or 1) > 1 and not are_kept(_SUMS) and _can_keep():
        with suppress(OSError):
            _start("sums").returncode = 0


def is_simulated_compiled(deadline: Deadline, *, free: bool) -> bool:
    """Whether the kernels for simulated times are compiled before the time is up.

    The searching process itself could not stop compiling on time. A process started
    here goes on after the deadline. Without a time limit, or if nothing can be kept,
    the search compiles by itself: then this is True at once.

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
    """Whether the kernels for simulated times were compiled before.

    Parameters
    ----------
    free
        Whether warm-up counts are chosen with the rest.
    """
    return all(are_kept(each) for each in (_SIMULATED if free else _SIMULATED[:-1]))


def times_later(*, free: bool) -> bool:
    """Start compiling the kernels for simulated times; see ``compile_later``."""
    return compile_later(_times(free))


def _times(free: bool) -> What:
    return "simulated-free" if free else "simulated"


def lock_path(what: What) -> Path:
    """Return the file that the compiling process locks."""
    return kept_folder() / f"compiling-{what}.lock"


def _can_keep() -> bool:
    """Whether another process can keep compiled code where this one finds it."""
    folder = kept_folder()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return os.name == "posix" and os.access(folder, os.W_OK)


def _start(
    what: What, *how: str, held: tuple[int, ...] = ()
) -> subprocess.Popen[bytes]:
    """Start a process that compiles, in a session of its own: it may outlive this."""
    return subprocess.Popen(
        [sys.executable, "-m", _PROGRAM, what, *how],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=held,
    )
