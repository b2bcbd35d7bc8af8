"""Where the machine code of compiled functions is kept.

Compiling takes seconds, so machine code is kept on disk. The package may be in a
read-only folder, so the code is in the user's cache, unless ``NUMBA_CACHE_DIR`` names
another folder.

A kernel contains the functions it calls and the constants it reads, of other modules
as well, but numba only checks whether the kernel's own file has changed. So every
module with kernels has its own folder, whose name contains a digest of that module, of
all modules that it imports, directly or not, and of the versions that matter.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import numba
import numpy
from platformdirs import user_cache_path

from hetopt.version import __version__

#: An import at the start of a line: a module of the package, and the imported names.
_IMPORT = re.compile(
    rb"^(?:from|import)[ ]+(hetopt[\w.]*)(?:[ ]+import[ ]+(\([^)]*\)|.*))?",
    re.MULTILINE,
)
_NAME = re.compile(rb"\b[a-z]\w*")

#: Machine code is removed after this time without use; use is noted once a day.
_UNUSED_S, _TOUCH_S = 60 * 86400.0, 86400.0


def are_kept(module: str) -> bool:
    """Whether a module's kernels were compiled before.

    Parameters
    ----------
    module
        Its full name; it need not be loaded.
    """
    return any(folder_of(module).rglob("*.nbi"))


def kept_folder() -> Path:
    """Return the folder that all machine code is kept in; it need not exist."""
    own = os.environ.get("NUMBA_CACHE_DIR")
    return (Path(own) / "hetopt") if own else user_cache_path("hetopt") / "numba"


@cache
def folder_of(module: str) -> Path:
    """Return where a module's machine code is kept."""
    kept = kept_folder()
    folder = kept / f"{module}-{_digest(module)}"
    # What cannot be removed, or is being removed by another process, may stay.
    with suppress(OSError):
        if not folder.exists():
            _remove_unused(kept)
        elif time.time() - folder.stat().st_mtime > _TOUCH_S:
            os.utime(folder)
    return folder


def _remove_unused(kept: Path) -> None:
    """Remove the machine code that has not been used for ``_UNUSED_S``.

    If another process needs it after all, numba compiles it again.
    """
    for folder in kept.iterdir():
        if time.time() - folder.stat().st_mtime > _UNUSED_S:
            shutil.rmtree(folder, ignore_errors=True)


def _digest(module: str) -> str:
    """Return a digest of everything that a module's kernels may contain."""
    digest = hashlib.sha256()
    versions = __version__, numba.__version__, numpy.__version__, sys.version
    # numba finds code by the path of its source: another copy of hetopt has its own.
    digest.update(repr((*versions, __file__)).encode())
    for name in sorted(_imported(module)):
        digest.update(name.encode() + hashlib.sha256(_source(name)).digest())
    return digest.hexdigest()[:16]


@cache
def _imported(module: str) -> frozenset[str]:
    """Return a module and those of the package that it imports, directly or not.

    Kernels are made when a module is loaded, so only imports at that time count, not
    those within functions, nor those for type checkers.
    """
    found, waiting = {module}, [module]
    while waiting:
        new = _imports(waiting.pop()) - found
        found |= new
        waiting += new
    return frozenset(found)


@cache
def _imports(module: str) -> frozenset[str]:
    """Return the modules of the package that a module imports itself."""
    found = set()
    for source, names in _IMPORT.findall(_source(module)):
        package = source.decode()
        found.add(package)
        # An imported name may be a module, too; modules are in lower case.
        found |= {f"{package}.{name.decode()}" for name in _NAME.findall(names)}
    return frozenset(name for name in found if _path(name) is not None)


@cache
def _source(module: str) -> bytes:
    path = _path(module)
    return b"" if path is None else path.read_bytes()


def _path(module: str) -> Path | None:
    """Return the file of a module of the package; None if there is none."""
    stem = Path(__file__).parents[2].joinpath(*module.split("."))
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if path.is_file():
            return path
    return None
