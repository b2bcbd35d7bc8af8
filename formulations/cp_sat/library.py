"""Loads OR-Tools without pandas, which takes longer than OR-Tools itself.

Its ``cp_model`` imports pandas for functions that make a series of variables, and
these are not called here. Whoever calls them gets pandas then.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

_MODULE, _PANDAS = "ortools.sat.python.cp_model", "pandas"
#: What of pandas ``cp_model`` names while it is imported: in annotations alone.
_NAMED = ("Index", "Series")


class _Later(ModuleType):
    """Stands for a module, which is imported when something of it is used."""

    def __getattr__(self, name: str) -> Any:
        _reveal(self)
        return getattr(importlib.import_module(self.__name__), name)


def load() -> None:
    """Import ``cp_model``, for whoever imports it next."""
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
    """Let imports find the module itself again."""
    if sys.modules.get(_PANDAS) is later:
        del sys.modules[_PANDAS]
