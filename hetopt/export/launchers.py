"""Launchers by the names that users give them."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.export.launcher import Launcher

#: Name -> module with a ``LAUNCHER``.
LAUNCHERS: Mapping[str, str] = MappingProxyType(
    {
        "torchrun": "hetopt.export.torchrun",
    }
)


def launcher(name: str) -> Launcher:
    """Return a launcher by name.

    Raises
    ------
    InputError
        There is none of this name.
    """
    if name not in LAUNCHERS:
        msg = f"there is no launcher {name!r}, expected one of {', '.join(LAUNCHERS)}"
        raise InputError(msg, field="--to")
    found: Launcher = import_module(LAUNCHERS[name]).LAUNCHER
    return found
