"""Write files so that nobody ever reads half of one."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from hetopt.base.interruption import held
from hetopt.base.words import writable
from hetopt.errors import InputError

#: Characters of a file's name in its temporary name: the length of names is limited.
_SHOWN = 32


def ensure_writable(path: str) -> None:
    """Raise InputError, before the work, if ``path`` cannot be written.

    Raises
    ------
    InputError
        The folder is missing or read-only, or ``path`` is itself a folder, or not a
        possible name of a file.
    """
    try:
        os.lstat(path)
    except FileNotFoundError:
        pass
    except NotADirectoryError as error:
        raise InputError("its folder does not exist", file=path) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot be written: {reason}", file=path) from error
    if Path(path).is_dir():
        raise InputError("is a folder, expected a file name", file=path)
    target = Path(os.path.realpath(path))
    if _is_device(path):
        target = Path(path)
    elif target.parent.is_dir():
        target = target.parent
    else:
        raise InputError("its folder does not exist", file=path)
    if not os.access(target, os.W_OK):
        raise InputError("cannot be written: permission denied", file=path)


def make_folder(name: str) -> Path:
    """Make a folder for results before the work, which would else fail at its end.

    Raises
    ------
    InputError
        It cannot be made, or nothing can be written into it.
    """
    folder = Path(name)
    if folder.is_file():
        raise InputError("is a file, expected a folder", file=name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot be made: {reason}", file=name) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError("cannot be written: permission denied", file=name)
    return folder


def write_text(path: str, text: str) -> None:
    """Write UTF-8 text, which may name any files; see ``write_bytes``."""
    write_bytes(path, writable(text).encode())


def write_bytes(path: str, content: bytes) -> None:
    """Write under a temporary name, then rename it to ``path``.

    A link is followed, an existing file keeps its mode, and a device or pipe is
    written to as it is.

    Raises
    ------
    InputError
        The file cannot be written; ``path`` is then as it was before.
    """
    try:
        if _is_device(path):
            Path(path).write_bytes(content)
            return
        with held():
            _replace(Path(os.path.realpath(path)), content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot be written: {reason}", file=path) from error


def _is_device(path: str) -> bool:
    """Whether ``path`` is a device or pipe, which is written to and never replaced."""
    return Path(path).exists() and not Path(path).is_file()


def _replace(target: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(
        dir=target.parent, prefix=f".{target.name[:_SHOWN]}."
    )
    try:
        with open(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(_mode(target))
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _mode(target: Path) -> int:
    """Return the mode of the file that is replaced, or of a new file by the umask."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
