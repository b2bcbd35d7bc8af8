"""Load OR-Tools without pandas, whose import takes longer than that of OR-Tools.

``cp_model`` imports pandas for functions that make a series of variables, which are
not called here. Pandas is imported when such a function is called.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

_MODULE, _PANDAS = "ortools.sat.python.cp_model", "pandas"
#: Names of pandas that ``cp_model`` uses during its import, only in annotations.
_NAMED = ("Index", "Series")


class _Later(ModuleType):
    """A placeholder for a module, which is imported once something of it is used."""

    def __getattr__(self, name: str) -> Any:
        _reveal(self)
        return getattr(importlib.import_module(self.__name__), name)


def load() -> None:
    """Import ``cp_model``, so that later imports find it."""
    if _MODULE in sys.modules or _PANDAS in sys.modules:
        return
    later = _Later(_PANDAS)
    for name in _NAMED:
        setattr(later, name, type(name, (), {}))
    sys.modules[_PANDAS] = later
    try:
        importlib.import_module(_MODULE)
    finally:
        _reveal(later)
        for name in _NAMED:
            delattr(later, name)


def _reveal(later: _Later) -> None:
    """Let imports find the real module again."""
    if sys.modules.get(_PANDAS) is later:
        del sys.modules[_PANDAS]
