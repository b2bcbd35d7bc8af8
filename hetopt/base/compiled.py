"""Compile functions with numba; ``machine_code`` chooses where the code is kept."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, TypeVar

import numba
from numba.core import config, event

from hetopt.base.machine_code import folder_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Module of scipy that numba looks for when it first loads a function.
_BLAS = "scipy.linalg.cython_blas"

#: Functions that only compiled functions call need no wrappers for Python.
_INSIDE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
#: Functions that make no arrays need no counts of references.
_BARE = {"_nrt": False}

#: Least passes of a loop for which compiling it pays off within one run.
PAYS_FROM = 300_000
#: Two whole numbers below this can be added in 64 bits.
FITS = 2**62

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def compiled(function: _Function) -> _Function:
    """Compile a function when it is first called, or load its code from the disk."""
    return _kept(function, {})


def part(function: _Function) -> _Function:
    """Compile a function that only compiled ones call; its code is kept with theirs."""
    made: _Function = numba.njit(**_INSIDE)(function)
    return made


def kernel(function: _Function) -> _Function:
    """Compile, like ``compiled``, a function that makes no array.

    Otherwise numba counts the references to every array that a call passes, atomically:
    small functions that pass dozens of arrays would spend most of their time on that.
    """
    return _kept(function, _BARE)


def step(function: _Function) -> _Function:
    """Compile, like ``part``, a function that makes and returns no array."""
    made: _Function = numba.njit(**_INSIDE, **_BARE)(function)
    return made


def as_written(function: _Function) -> _Function:
    """Return the Python function of a compiled one, to run it uncompiled."""
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
    """Return the seconds that this process has spent on compiling."""
    return float(_COMPILING.duration) if _COMPILING.done else 0.0


def _kept(function: _Function, options: dict[str, bool]) -> _Function:
    numbas = config.CACHE_DIR
    config.CACHE_DIR = str(folder_of(function.__module__))
    try:
        made: _Function = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to write: every process compiles for itself
        made = numba.njit(**options)(function)
    finally:
        config.CACHE_DIR = numbas
    return made
