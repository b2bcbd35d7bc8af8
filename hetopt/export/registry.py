"""Launchers by the names that users give them, hetopt's and the users' own."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.export.launcher import Launcher
from hetopt.words import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint
    from pathlib import Path

    from hetopt.export.launcher import Limits, Reader

#: hetopt's launchers, and whether ``hetopt plan --for`` plans for them: help texts say
#: so without loading any. Each is a folder here whose module ``launcher`` holds the
#: record ``LAUNCHER``.
SHIPPED: Mapping[str, bool] = MappingProxyType(
    {
        "flagscale": True,
        "hetu": True,
        "hexiscale": True,
        "megatron": True,
        "nemo": True,
        "slurm": False,
        "torch": True,
        "torchrun": False,
        "torchtitan": False,
    }
)
#: Packages name their own launchers under this group in pyproject.toml.
ENTRY_POINTS = "hetopt.exporters"

_registered: dict[str, Launcher] = {}


def register_exporter(own: Launcher) -> None:
    """Add a launcher for this process; one of the same name is replaced.

    Raises
    ------
    InputError
        One of hetopt's own launchers has this name.
    """
    _ensure_free(own.name, "the launcher")
    _registered[own.name] = own


def launcher_names() -> tuple[str, ...]:
    """Return the names of all launchers, hetopt's first."""
    return tuple(dict.fromkeys((*SHIPPED, *_registered, *_entry_points())))


def limited_names() -> tuple[str, ...]:
    """Return the launchers that ``hetopt plan --for`` plans for."""
    own = (name for name in launcher_names() if name not in SHIPPED)
    return (
        *(name for name, limited in SHIPPED.items() if limited),
        *(name for name in own if not isinstance(launcher(name).limits, str)),
    )


def launcher(name: str) -> Launcher:
    """Return a launcher by name.

    Raises
    ------
    InputError
        There is none of this name, or the package that names it does not provide it.
    """
    if name in SHIPPED:
        found: Launcher = import_module(f"hetopt.export.{name}.launcher").LAUNCHER
        return found
    if name in _registered:
        return _registered[name]
    if name in _entry_points():
        return _loaded(_entry_points()[name])
    known = launcher_names()
    hint = suggest(name, known)
    msg = f"there is no launcher {name!r}{hint}, expected one of {', '.join(known)}"
    raise InputError(msg, field="--to")


def limits_of(name: str) -> Limits:
    """Return the limits of a launcher; InputError if it has none."""
    found = launcher(name).limits if name in launcher_names() else ""
    if not isinstance(found, str):
        return found
    known = limited_names()
    hint = f" ({found})" if found else suggest(name, known)
    msg = f"there is no launcher {name!r} with limits of its own{hint}"
    raise InputError(f"{msg}, expected one of {', '.join(known)}", field="--for")


def readers() -> dict[str, Reader]:
    """Return the readers of launchers whose files can be read back, by name."""
    found = {name: launcher(name).reader for name in launcher_names()}
    return {name: reader for name, reader in found.items() if reader is not None}


def reader(folder: Path, name: str | None) -> Reader:
    """Return the reader of this name, or the only one that recognises a folder.

    Raises
    ------
    InputError
        There is no such folder or reader, or not exactly one recognises the folder.
    """
    if not folder.is_dir():
        what = "is a file, expected a folder" if folder.exists() else "no such folder"
        raise InputError(what, file=str(folder))
    known = readers()
    if name is not None:
        if name not in known:
            hint = suggest(name, known)
            msg = f"nothing reads {name!r}{hint}, expected one of {', '.join(known)}"
            raise InputError(msg, field="--from")
        return known[name]
    found = [each for each, reads in known.items() if recognises(reads, folder)]
    if len(found) == 1:
        return known[found[0]]
    could = f"could be of {' or '.join(found)}" if found else "is of no known launcher"
    msg = f"{could}: name one with --from: {', '.join(known)}"
    raise InputError(msg, file=str(folder))


def recognises(reads: Reader, folder: Path) -> bool:
    """Whether a folder looks like a reader's; raises nothing."""
    try:
        return reads.looks_like(folder)
    except InputError:
        return False


@cache
def _entry_points() -> Mapping[str, EntryPoint]:
    """Return the launchers of installed packages, not loaded yet."""
    from importlib.metadata import entry_points

    found = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    for name, point in found.items():
        _ensure_free(name, point.value)
    return found


def _loaded(point: EntryPoint) -> Launcher:
    """Return the record of an installed package; InputError if it is none."""
    where = f"{ENTRY_POINTS}.{point.name}"
    try:
        found = point.load()
    except Exception as error:
        # Whatever goes wrong in the package is the package's fault.
        reason = str(error).partition("\n")[0]
        msg = f"{point.value} cannot be loaded: {reason}"
        raise InputError(msg, field=where) from error
    if not isinstance(found, Launcher) or found.name != point.name:
        msg = f"{point.value} is not a Launcher named {point.name!r}"
        raise InputError(msg, field=where)
    return found


def _ensure_free(name: str, what: str) -> None:
    """Raise InputError if one of hetopt's own launchers has a name."""
    if name in SHIPPED:
        msg = f"{what} has the name of one of hetopt's, {name!r}: rename it"
        raise InputError(msg, field=ENTRY_POINTS)
