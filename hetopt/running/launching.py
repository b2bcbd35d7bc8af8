"""Starts all scripts of a bundle on this machine, and ends them together."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.base import interruption
from hetopt.errors import HetoptError, InputError
from hetopt.running.conditions import running_threads
from hetopt.running.devices import devices_of

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Seconds between two looks at the scripts.
_POLL_S = 0.05
#: Seconds for the other scripts to end once one has failed, and for a script to end
#: after SIGTERM.
_PATIENCE_S = 10.0
#: What the first rank to fail prints; see ``hetopt.export.torch.program.failure``.
_FAILED = re.compile(r"^rank \d+: .*$", re.MULTILINE)
#: The number of ranks that a script starts.
_RANKS = re.compile(r"--nproc_per_node=(\d+)\b")
#: Lines of a failed script's output that are shown.
_LAST_LINES = 40


def scripts_of(folder: Path) -> list[Path]:
    """Return a bundle's scripts, by node.

    Raises
    ------
    InputError
        The folder is no bundle of hetopt's own program.
    """
    scripts = sorted(folder.glob("nodes/*.sh"))
    if not (scripts and (folder / "job.json").is_file()):
        msg = "is no bundle that `hetopt export --to torch` wrote"
        raise InputError(msg, file=str(folder))
    return scripts


def launch(
    folder: Path, arguments: Sequence[str], logs: Path
) -> list[tuple[float, int]]:
    """Run a bundle's scripts here until all have ended.

    If this ends early, by Ctrl-C for example, all ranks are ended first.

    Parameters
    ----------
    arguments
        Arguments of the program.
    logs
        Folder for the scripts' output.

    Returns
    -------
    Times of ``time.perf_counter``, and the machine's ``running_threads`` then.

    Raises
    ------
    HetoptError
        A rank failed; which and why is printed on standard error.
    InputError
        The folder is no bundle, or there are too few GPUs.
    """
    scripts = scripts_of(folder)
    slots = [_slots(script) for script in scripts]
    devices, shared = devices_of(slots), _environment()
    paths = [logs / f"{script.stem}.log" for script in scripts]
    started: list[subprocess.Popen[bytes]] = []
    try:
        # Signals wait until every process that was started is in the list.
        with interruption.held():
            for script, path, own in zip(scripts, paths, devices, strict=True):
                with path.open("wb") as log:
                    started.append(
                        subprocess.Popen(
                            [str(script.absolute()), *arguments],
                            env={**shared, **own},
                            stdin=subprocess.DEVNULL,
                            stdout=log,
                            stderr=subprocess.STDOUT,
                            # Ctrl-C reaches only hetopt, which then ends them.
                            start_new_session=True,
                        )
                    )
        loads = _wait(started)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot be started: {reason}", file=str(folder)) from error
    finally:
        with interruption.held():
            _end(started)
    codes = [each.returncode for each in started]
    if any(codes):
        raise _failure(codes, paths)
    return loads


def _slots(script: Path) -> int:
    found = _RANKS.search(script.read_text("utf-8"))
    if found is None:
        msg = "does not say --nproc_per_node=N, as scripts of hetopt's do"
        raise InputError(msg, file=str(script))
    return int(found[1])


def _environment() -> dict[str, str]:
    """Return the scripts' environment: the rendezvous, and PATH with this Python."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    # PATH, for the same PyTorch as here; the user's own rendezvous is kept.
    return {**meeting, **os.environ, "PATH": path}


def _wait(started: Sequence[subprocess.Popen[bytes]]) -> list[tuple[float, int]]:
    """Wait until all have ended, or for some seconds after one has failed.

    Returns the machine's running threads by time.
    """
    deadline, loads = None, []
    while None in (codes := [each.poll() for each in started]):
        if deadline is None and any(codes):
            deadline = time.monotonic() + _PATIENCE_S
        if deadline is not None and time.monotonic() > deadline:
            break
        if (load := running_threads()) is not None:
            loads.append((time.perf_counter(), load))
        time.sleep(_POLL_S)
    return loads


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the scripts that still run, with all their descendants."""
    running = [each for each in started if each.poll() is None]
    # torchrun's ranks have sessions of their own: find them while torchrun runs.
    below = [pid for each in running for pid in _descendants(each.pid)]
    for each in running:
        _signal(each.pid, signal.SIGTERM)
    deadline = time.monotonic() + _PATIENCE_S
    for each in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            each.wait(max(deadline - time.monotonic(), _POLL_S))
    # A script first: if its children ended before it, it would go on and start more.
    for each in running:
        if each.poll() is None:
            below += _descendants(each.pid)
            _signal(each.pid, signal.SIGKILL)
            each.wait()
    # A script that ends at SIGTERM may have started a child a moment before, unseen.
    # It leads a group of its own, which lasts as long as any process in it.
    for each in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.pid, signal.SIGKILL)
    for pid in dict.fromkeys(below):
        _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _descendants(pid: int) -> list[int]:
    """Return the descendants of a process; none if the system has no /proc."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, children.read_text().split()):
                found += [child, *_descendants(child)]
    return found


def _failure(codes: Sequence[int], paths: Sequence[Path]) -> HetoptError:
    """Print the first rank's error, else a script's last lines; return an error."""
    texts = [path.read_text("utf-8", "replace") for path in paths]
    for text in texts:
        first = _FAILED.search(text)
        if first is not None:
            rest = text[first.start() :].splitlines()
            print(*rest[:_LAST_LINES], sep="\n", file=sys.stderr)
            return HetoptError(f"{first[0].partition(':')[0]} failed, and all ended")
    number = next(n for n, code in enumerate(codes) if code)
    lines = texts[number].splitlines()
    print(*lines[-_LAST_LINES:], sep="\n", file=sys.stderr)
    return HetoptError(
        f"{paths[number].stem} ended with code {codes[number]}, and all ended"
    )
