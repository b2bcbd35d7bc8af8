"""Kernels are compiled once, in the open, and a cache cannot break a plan."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.base import interruption, machine_code
from hetopt.solvers import compiling, kernels
from hetopt.solvers.compiling import CompilingWarning, compile_once, is_compiled
from hetopt.solvers.kernels import KernelSet
from hetopt.solvers.pools import children
from tests import processes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.context import SpawnProcess

#: A module with one small kernel, and the set that it is in here.
_MODULE = "hetopt.check.plan.schedule.run"
_SET: Any = "small"


def _code() -> Path:
    """Return where a call of ``_compile`` keeps its machine code."""
    return machine_code.code_path(_MODULE, "_run", "(int64,)")


def _compile() -> None:
    """Stand for a kernel's compilation, which takes seconds."""
    machine_code.write_code(_code(), b"machine code")


@pytest.fixture(autouse=True)
def small_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One set with one kernel that is compiled in no time, in a cache of its own."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    sets = {_SET: KernelSet(modules=(_MODULE,), call=_compile)}
    for module in (kernels, compiling):
        monkeypatch.setattr(module, "KERNELS", sets)
    monkeypatch.setattr(compiling, "_CHAINS", ((_SET,),))
    return iter(())


def test_it_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[int, int]] = []
    compile_once([_SET], jobs=1, show=lambda *state: shown.append(state))
    assert is_compiled([_SET])
    assert shown == [(0, 1)]
    monkeypatch.setattr(compiling, "_compile_missing", pytest.fail)
    compile_once([_SET], jobs=1, show=lambda *state: shown.append(state))
    assert len(shown) == 1


@pytest.mark.parametrize("damage", [b"", b"\0" * 5000, b"\x01" * 20, b"cut"])
def test_damaged_code_is_compiled_again(damage: bytes) -> None:
    compile_once([_SET], jobs=1)
    whole = _code().read_bytes()
    _code().write_bytes(whole[:-3] if damage == b"cut" else damage)
    assert machine_code.read_code(_code()) is None
    with pytest.warns(CompilingWarning, match="damaged machine code") as caught:
        compile_once([_SET], jobs=1)
    assert len(caught) == 1
    assert str(_code()) in str(caught[0].message)
    assert _code().read_bytes() == whole


def test_a_full_disk_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"

    def allocate(descriptor: int, begin: int, size: int) -> None:
        if os.path.realpath(f"/proc/self/fd/{descriptor}").startswith(str(cache)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.posix_fallocate", allocate)
    with pytest.warns(CompilingWarning, match="No space left on device") as caught:
        compile_once([_SET], jobs=1)
    assert len(caught) == 1
    # It is kept elsewhere for as long as this process runs.
    assert is_compiled([_SET])
    assert not _code().is_relative_to(cache)


def test_without_any_room_every_process_compiles_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def allocate(descriptor: int, begin: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.posix_fallocate", allocate)
    with pytest.warns(CompilingWarning):
        compile_once([_SET], jobs=1)
    assert not is_compiled([_SET])


def test_a_read_only_cache_is_enough_once_it_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_once([_SET], jobs=1)
    monkeypatch.setattr(compiling, "_why_unwritable", pytest.fail)
    compile_once([_SET], jobs=1)


def test_a_cache_in_a_file_is_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(CompilingWarning, match="Not a directory"):
        compile_once([_SET], jobs=1)
    assert is_compiled([_SET])


def test_a_lock_that_cannot_be_taken_is_done_without() -> None:
    (machine_code.kept_folder() / "compiling.lock").mkdir(parents=True)
    compile_once([_SET], jobs=1)
    assert is_compiled([_SET])


def test_a_module_whose_folder_is_read_only_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = machine_code.folder_of(_MODULE)
    own.mkdir(parents=True)
    known = os.access

    def access(path: Path, mode: int) -> bool:
        return path != own and known(path, mode)

    monkeypatch.setattr("os.access", access)
    with pytest.warns(CompilingWarning, match="Permission denied"):
        compile_once([_SET], jobs=1)
    assert is_compiled([_SET])


def test_who_comes_second_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first one compiles is not compiled again."""
    folder = machine_code.kept_folder()
    folder.mkdir(parents=True)
    turns: list[tuple[int, int]] = []
    with (folder / "compiling.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def show(done: int, count: int) -> None:
            turns.append((done, count))
            if len(turns) == 3:
                _compile()
                fcntl.flock(lock, fcntl.LOCK_UN)

        monkeypatch.setitem(
            kernels.KERNELS,
            _SET,
            KernelSet(modules=(_MODULE,), call=pytest.fail),
        )
        compile_once([_SET], jobs=1, show=show)
    assert is_compiled([_SET])


def test_a_process_that_has_just_started_ends_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[SpawnProcess] = []
    known = children.start

    def start(process: SpawnProcess) -> None:
        known(process)
        started.append(process)
        # What the handler of Ctrl-C does.
        interruption._note(signal.SIGINT, None)

    monkeypatch.setattr(children, "start", start)
    # A set that the other process knows, too.
    own = KernelSet(modules=(_MODULE,), call=pytest.fail)
    monkeypatch.setitem(kernels.KERNELS, "dp", own)
    monkeypatch.setattr(compiling, "_CHAINS", (("dp",),))
    interruption.install()
    try:
        with pytest.raises(KeyboardInterrupt), interruption.released():
            compiling._compile_missing(("dp",), 2, lambda done, of: None)
    finally:
        interruption.remove()
    assert [process.is_alive() for process in started] == [False]


@pytest.mark.slow
def test_no_process_outlives_who_compiles(tmp_path: Path) -> None:
    """Neither Ctrl-C nor a kill leaves a compiling process behind."""
    for ending in ("SIGINT", "SIGKILL"):
        cache = tmp_path / ending
        process = subprocess.Popen(
            [sys.executable, "-m", "hetopt", "compile"],
            env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        began: set[int] = set()
        end = time.monotonic() + 60
        while len(began) < 2 and time.monotonic() < end:
            began = processes.children(process.pid)
            time.sleep(0.1)
        assert len(began) >= 2
        process.send_signal(getattr(signal, ending))
        process.wait(30)
        # A process that still imports ends once it has: long before what it would
        # compile is.
        end = time.monotonic() + 20
        while any(map(processes.alive, began)) and time.monotonic() < end:
            time.sleep(0.1)
        assert not [*filter(processes.alive, began)]
