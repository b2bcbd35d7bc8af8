"""Functions compiled with numba, and where their machine code is kept.

Compiling takes seconds, so what is compiled is kept on disk. The package may lie
where nobody can write, so the folder is the user's cache, unless ``NUMBA_CACHE_DIR``
names another one. Numba looks only at the file of a function to see whether it has
changed, not at those of the functions it calls: the folder's name is a digest of all
of them that lie beside it.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numba
from numba.core import config
from platformdirs import user_cache_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: What numba looks for when it first loads a function: scipy's, or none.
_BLAS = "scipy.linalg.cython_blas"

#: Functions that only compiled ones call need nothing that Python calls them by.
_INSIDE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
#: Without arrays to make there are no references to count.
_BARE = {"_nrt": False}

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


def _kept(function: _Function, options: dict[str, bool]) -> _Function:
    kept = config.CACHE_DIR
    if "NUMBA_CACHE_DIR" not in os.environ:
        config.CACHE_DIR = _folder(Path(function.__code__.co_filename).parent)
    try:
        made: _Function = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to write: every process compiles for itself
        made = numba.njit(**options)(function)
    finally:
        config.CACHE_DIR = kept
    return made


def are_kept(file: str, prefix: str) -> bool:
    """Whether functions of files that begin like this were compiled before.

    Parameters
    ----------
    file
        One beside those, such as the caller's own.
    """
    folder = os.environ.get("NUMBA_CACHE_DIR") or _folder(Path(file).parent)
    return any(Path(folder).rglob(f"{prefix}*.nbi"))


@cache
def _folder(package: Path) -> str:
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted(package.glob("*.py")):
        content = path.read_bytes()
        # Positions in their arrays are compiled in.
        if b"hetopt.compiled" in content or path.stem.endswith("_data"):
            digest.update(content)
    folder = user_cache_path("hetopt") / "numba" / digest.hexdigest()[:16]
    return str(folder)
