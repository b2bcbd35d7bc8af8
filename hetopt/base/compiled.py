"""Compile functions with numba; ``machine_code`` chooses where the code is kept."""

from __future__ import annotations

import importlib
import pickle
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import numba
from numba.core import caching, compiler, serialize
from numba.core.types.misc import unliteral

from hetopt.base.machine_code import code_path, read_code, write_code

if TYPE_CHECKING:
    from collections.abc import Callable

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


def kernel(function: _Function) -> _Function:
    """Compile, like ``compiled``, a function that makes no array.

    Otherwise numba counts the references to every array that a call passes, atomically:
    small functions that pass dozens of arrays would spend most of their time on that.
    """
    return _kept(function, _BARE)


def step(function: _Function) -> _Function:
    """Compile a function that kernels call, and that makes and returns no array.

    Its code is kept with theirs, and becomes a part of it: a call would copy each field
    of each array in the tuples that it passes, some two hundred numbers, and steps are
    called for every label. LLVM alone decides by the size of the function, not by what
    a call costs.
    """
    made: _Function = numba.njit(**_INSIDE, **_BARE, forceinline=True)(function)
    return _once_for_each_type(made)


def _once_for_each_type(made: _Function) -> _Function:
    """Compile a function once for each type of its arguments.

    By default numba compiles it again for every constant that a caller passes.
    """
    template = getattr(made, "get_call_template", None)
    if template is None:
        # numba is disabled, and leaves functions as they are.
        return made

    def without_constants(arguments: Any, named: Any) -> Any:
        return template(
            tuple(unliteral(each) for each in arguments),
            {name: unliteral(each) for name, each in named.items()},
        )

    made.get_call_template = without_constants  # type: ignore[attr-defined]
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


class _OnDisk(caching._Cache):  # type: ignore[misc]
    """Keeps the machine code of one function, as numba asks a cache to.

    numba's own cache does not notice damaged files, and raises an error on a full disk.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._module, self._name = function.__module__, function.__name__

    @property
    def cache_path(self) -> str:
        """Where the files are: what numba shows of a cache."""
        return str(code_path(self._module, self._name, "").parent)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for arguments of some types; None if there is none."""
        target_context.refresh()
        code = read_code(code_path(self._module, self._name, str(sig)))
        if code is None:
            return None
        content = pickle.loads(code)
        return compiler.CompileResult._rebuild(target_context, *content)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep code that was just compiled, if it can be kept."""
        path = code_path(self._module, self._name, str(sig))
        write_code(path, serialize.dumps(data._reduce()))

    def enable(self) -> None:
        """Do nothing: it is always enabled."""

    def disable(self) -> None:
        """Do nothing: it is always enabled."""

    def flush(self) -> None:
        """Do nothing: there is no index."""


def _kept(function: _Function, options: dict[str, bool]) -> _Function:
    made: _Function = numba.njit(**options)(function)
    made._cache = _OnDisk(function)  # type: ignore[attr-defined]
    return made
