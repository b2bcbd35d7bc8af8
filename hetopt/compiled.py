"""Functions compiled with numba, and where their machine code is kept.

Compiling takes seconds, so what is compiled is kept on disk. The package may lie
where nobody can write, so the folder is the user's cache, unless ``NUMBA_CACHE_DIR``
names another one.

A kernel contains the functions it calls and the constants it reads, of other modules
as well, but numba only checks whether the kernel's own file has changed. So every
module with kernels has a folder of its own, and the folder's name is a digest of that
module, of all modules it imports, in turn, and of the versions that matter.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shutil
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numba
import numpy
from numba.core import config, event
from platformdirs import user_cache_path

from hetopt.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: A statement at the start of a line: the package's module, and what of it.
_IMPORT = re.compile(
    rb"^(?:from|import)[ ]+(hetopt[\w.]*)(?:[ ]+import[ ]+(\([^)]*\)|.*))?",
    re.MULTILINE,
)
_NAME = re.compile(rb"\b[a-z]\w*")

#: Machine code goes when it has not been used for so long; use is noted once a day.
_UNUSED_S, _TOUCH_S = 60 * 86400.0, 86400.0

#: What numba looks for when it first loads a function: scipy's, or none.
_BLAS = "scipy.linalg.cython_blas"

#: Functions that only compiled ones call need nothing that Python calls them by.
_INSIDE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
#: Without arrays to make there are no references to count.
_BARE = {"_nrt": False}

#: From so many passes of a loop on, compiling it pays within one run.
PAYS_FROM = 300_000
#: Whole numbers below it can be added in 64 bits.
FITS = 2**62

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def compiled(function: _Function) -> _Function:
    """Compile a function when it is first called, or take it from the disk."""
    return _kept(function, {})


def part(function: _Function) -> _Function:
    """Compile a function that compiled ones call; it is kept with its callers."""
    made: _Function = numba.njit(**_INSIDE)(function)
    return made


def kernel(function: _Function) -> _Function:
    """Compile as ``compiled`` does a function that makes no array.

    Numba counts the references to every array a call passes, atomically: where
    small functions pass each other dozens of arrays that is nearly all they do.
    """
    return _kept(function, _BARE)


def step(function: _Function) -> _Function:
    """Compile as ``part`` does a function that makes and returns no array."""
    made: _Function = numba.njit(**_INSIDE, **_BARE)(function)
    return made


def as_written(function: _Function) -> _Function:
    """Return what a compiled function was made of, to run it uncompiled."""
    made: _Function = function.py_func  # type: ignore[attr-defined]
    return made


def _load_without_blas() -> None:
    """Load the part of numba that imports scipy for products of matrices.

    That takes as long as the rest of numba, and nothing here multiplies matrices.
    """
    if "scipy.linalg" in sys.modules:
        return
    sys.modules[_BLAS] = None  # type: ignore[assignment]
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        del sys.modules[_BLAS]


_load_without_blas()

_COMPILING = event.TimingListener()
event.register("numba:compile", _COMPILING)


def compiling_s() -> float:
    """Return for how many seconds this process has compiled."""
    return float(_COMPILING.duration) if _COMPILING.done else 0.0


def _kept(function: _Function, options: dict[str, bool]) -> _Function:
    numbas = config.CACHE_DIR
    config.CACHE_DIR = str(_folder(function.__module__))
    try:
        made: _Function = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to write: every process compiles for itself
        made = numba.njit(**options)(function)
    finally:
        config.CACHE_DIR = numbas
    return made


def are_kept(module: str) -> bool:
    """Whether a module's kernels were compiled before.

    Parameters
    ----------
    module
        Its full name; it need not be loaded.
    """
    return any(_folder(module).rglob("*.nbi"))


def kept_folder() -> Path:
    """Return the folder that all machine code is kept in; it need not exist."""
    own = os.environ.get("NUMBA_CACHE_DIR")
    return (Path(own) / "hetopt") if own else user_cache_path("hetopt") / "numba"


@cache
def _folder(module: str) -> Path:
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
    """Remove the machine code that nobody has used for long.

    If another process wants it after all, numba compiles it again.
    """
    for folder in kept.iterdir():
        if time.time() - folder.stat().st_mtime > _UNUSED_S:
            shutil.rmtree(folder, ignore_errors=True)


def _digest(module: str) -> str:
    """Return a digest of everything that a module's kernels may contain."""
    digest = hashlib.sha256()
    versions = __version__, numba.__version__, numpy.__version__, sys.version
    # numba keeps code by where its source is: another copy of hetopt compiles its own.
    digest.update(repr((*versions, __file__)).encode())
    for name in sorted({*_imported(module), __name__}):
        digest.update(name.encode() + hashlib.sha256(_source(name)).digest())
    return digest.hexdigest()[:16]


@cache
def _imported(module: str) -> frozenset[str]:
    """Return a module and those of the package that it imports, in turn.

    Kernels are made when a module is loaded, so only its own imports count, not those
    within functions, nor those for type checkers.
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
        # A name may be one as well; modules are in lower case.
        found |= {f"{package}.{name.decode()}" for name in _NAME.findall(names)}
    return frozenset(name for name in found if _path(name) is not None)


@cache
def _source(module: str) -> bytes:
    path = _path(module)
    return b"" if path is None else path.read_bytes()


def _path(module: str) -> Path | None:
    """Return the file of a module of the package; None if there is none."""
    stem = Path(__file__).parent.parent.joinpath(*module.split("."))
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if path.is_file():
            return path
    return None
