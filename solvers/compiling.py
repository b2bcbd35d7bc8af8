"""Compile the kernels that a search needs: once, in the open, before its clock starts.

They are compiled in processes that end before the search begins, or in this process if
it may start none. Commands that need the same kernels at the same time wait for each
other. If the user's cache cannot hold machine code, it is kept in a temporary folder
until this process ends.
"""

from __future__ import annotations

import atexit
import errno
import multiprocessing
import os
import shutil
import tempfile
import time
import warnings
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, TYPE_CHECKING

from hetopt.base.interruption import held, released
from hetopt.base.machine_code import folder_of, kept_folder, kept_of
from hetopt.solvers.kernels import KERNELS
from hetopt.solvers.pools import children
from hetopt.solvers.pools.opening import worker_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.context import SpawnProcess

    from hetopt.base.machine_code import Kept
    from hetopt.solvers.registry import KernelSetName

    #: Called with the kernels that are compiled, and all of them.
    Show = Callable[[int, int], None]

#: Sets that one process compiles, one after the other, as a set calls the kernels of
#: those before it; the longest first.
_CHAINS: tuple[tuple[KernelSetName, ...], ...] = (
    ("simulated", "free warm-ups"),
    ("bounds", "dp"),
    ("tree",),
    ("verification",),
)
#: Space that the machine code of all kernels takes at most.
_MOST_BYTES = 16 * 2**20
#: Seconds between two looks at what is compiled.
_TURN_S = 0.1
_SPAWN = multiprocessing.get_context("spawn")


class CompilingWarning(UserWarning):
    """Machine code could not be used or kept; the answer is not affected."""


def is_compiled(names: Iterable[KernelSetName]) -> bool:
    """Whether all kernels of some sets have intact machine code."""
    return not _kept(names).missing


def compile_once(
    names: Iterable[KernelSetName],
    *,
    jobs: int | None = None,
    show: Show | None = None,
) -> None:
    """Compile the kernels of some sets unless their machine code is kept.

    Parameters
    ----------
    names
        The sets, as ``kernels_for`` returns them.
    jobs
        Processes that may compile; None: one per core; 0 or 1: this process compiles.
    show
        Called now and then while kernels are compiled, and never if all are.

    Raises
    ------
    KeyboardInterrupt
        The user interrupted; what was compiled until then is kept.
    """
    names = tuple(names)
    kept = _kept(names)
    if not kept.missing:
        return
    _warn_of_damage(kept)
    why = _why_unwritable(names)
    if why is not None:
        _use_temporary_folder(why)
        if _why_unwritable(names) is not None:
            # Every process compiles for itself, when it needs a kernel.
            return
    told = (lambda done, of: None) if show is None else show
    with released(), _locked(names, told):
        _compile_missing(names, worker_count(jobs), told)


def _kept(names: Iterable[KernelSetName]) -> Kept:
    return kept_of(module for name in names for module in KERNELS[name].modules)


def _warn_of_damage(kept: Kept) -> None:
    if not kept.damaged:
        return
    first, *others = kept.damaged
    more = f" and {len(others)} more" if others else ""
    warnings.warn(
        f"{first}{more}: damaged machine code is compiled again",
        CompilingWarning,
        stacklevel=3,
    )


def _why_unwritable(names: Iterable[KernelSetName]) -> str | None:
    """Return why machine code of some sets cannot be kept; None if it can be."""
    folder = kept_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            for module in KERNELS[name].modules:
                own = folder_of(module)
                if own.exists() and not os.access(own, os.W_OK | os.X_OK):
                    return f"{own.name}: {os.strerror(errno.EACCES)}"
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, _MOST_BYTES)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _use_temporary_folder(why: str) -> None:
    """Keep machine code in a new folder that is removed when this process ends."""
    before = kept_folder()
    with suppress(OSError):
        folder = tempfile.mkdtemp(prefix="hetopt-")
        os.environ["NUMBA_CACHE_DIR"] = folder
        atexit.register(_remove, folder, os.getpid())
    warnings.warn(
        f"{before}: machine code cannot be kept there ({why}): it is compiled for "
        "this run alone; set XDG_CACHE_HOME to a folder with room for it",
        CompilingWarning,
        stacklevel=3,
    )


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(names: Sequence[KernelSetName], show: Show) -> Iterator[None]:
    """Wait until no other process compiles, or until it has compiled everything.

    Nothing is locked where that cannot be done: what two processes compile is the same.
    """
    with ExitStack() as stack:
        with suppress(OSError, ImportError):
            lock = stack.enter_context((kept_folder() / "compiling.lock").open("w"))
            while not _is_locked(lock):
                _tell(names, show)
                time.sleep(_TURN_S)
        yield


def _is_locked(lock: IO[str]) -> bool:
    """Lock a file unless another process has; return whether it is locked."""
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _compile_missing(names: Sequence[KernelSetName], workers: int, show: Show) -> None:
    todo = {name for name in names if _kept([name]).missing}
    waiting = [
        chain
        for all_of in _CHAINS
        if (chain := tuple(name for name in all_of if name in todo))
    ]
    if workers <= 1 or multiprocessing.current_process().daemon:
        for chain in waiting:
            _tell(names, show)
            _call(chain)
        return
    running: list[SpawnProcess] = []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                args = (waiting.pop(0),)
                process = _SPAWN.Process(target=_compile, args=args, daemon=True)
                # One that is interrupted in between would be left to itself.
                with held(), children.without_main():
                    children.start(process)
                    running.append(process)
            _tell(names, show)
            running[0].join(_TURN_S)
            running = [process for process in running if process.is_alive()]
    finally:
        for process in running:
            process.kill()
            process.join()


def _tell(names: Sequence[KernelSetName], show: Show) -> None:
    kept = _kept(names)
    show(kept.kernels - len(kept.missing), kept.kernels)


def _compile(names: tuple[KernelSetName, ...]) -> None:
    """Compile some sets: what a process does."""
    children.settle_in()
    _call(names)


def _call(names: Iterable[KernelSetName]) -> None:
    for name in names:
        KERNELS[name].call()
