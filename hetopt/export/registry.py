"""Launchers by name: hetopt's and the users' own."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING

from hetopt.base.plugins import Plugins
from hetopt.base.words import suggest
from hetopt.errors import InputError
from hetopt.export.launcher import Launcher

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hetopt.export.launcher import Limits, Reader
    from hetopt.problem.problem import Problem

#: hetopt's launchers, and whether ``hetopt plan --for`` plans for them, so that help
#: texts need not load any. Each is a folder here whose module ``launcher`` holds the
#: record ``LAUNCHER``. If its files can be read back, the module ``reading`` holds
#: ``READER``, and is loaded only to read some.
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
#: Users' launchers; packages list theirs under this group in pyproject.toml.
OWN = Plugins("hetopt.exporters", Launcher, SHIPPED)


def register_exporter(own: Launcher) -> None:
    """Add a launcher for this process; one of the same name is replaced.

    Raises
    ------
    InputError
        One of hetopt's own launchers has this name.
    """
    OWN.register(own)


def launcher_names() -> tuple[str, ...]:
    """Return the names of all launchers, hetopt's first."""
    return tuple(dict.fromkeys((*SHIPPED, *OWN.names())))


def limited_names() -> tuple[str, ...]:
    """Return the launchers that ``hetopt plan --for`` plans for."""
    own = (name for name in launcher_names() if name not in SHIPPED)
    return (
        *(name for name, limited in SHIPPED.items() if limited),
        *(name for name in own if not isinstance(launcher(name).limits, str | None)),
    )


def launcher(name: str, field: str = "--to") -> Launcher:
    """Return a launcher by name.

    Parameters
    ----------
    field
        Where the user names it.

    Raises
    ------
    InputError
        There is none of this name, or the package that lists it does not provide it.
    """
    if name in SHIPPED:
        found: Launcher = import_module(f"hetopt.export.{name}.launcher").LAUNCHER
        return found
    own = OWN.find(name)
    if own is not None:
        return own
    known = launcher_names()
    hint = suggest(name, known)
    msg = f"there is no launcher {name!r}{hint}, expected one of {', '.join(known)}"
    raise InputError(msg, field=field)


def launcher_for(name: str | None, problem: Problem) -> Launcher:
    """Return a launcher by name; None: the problem's.

    Raises
    ------
    InputError
        There is none of this name, or no name.
    """
    if name is not None:
        return launcher(name)
    if problem.launcher is not None:
        return launcher(problem.launcher, "launcher")
    known = ", ".join(launcher_names())
    msg = f"is missing, and the problem names no launcher: expected one of {known}"
    raise InputError(msg, field="--to")


def runs_any(name: str) -> bool:
    """Whether a launcher starts any plan.

    Raises
    ------
    InputError
        There is none of this name, or plans are not searched for it.
    """
    found = launcher(name, "launcher").limits
    if isinstance(found, str):
        limits_of(name)
    return found is None


def limits_of(name: str) -> Limits:
    """Return the limits of a launcher; InputError if it has none."""
    found = launcher(name).limits if name in launcher_names() else ""
    if not isinstance(found, str | None):
        return found
    known = limited_names()
    hint = f" ({found or 'it starts any plan: leave --for out'})"
    if name not in launcher_names():
        hint = suggest(name, known)
    msg = f"there is no launcher {name!r} with limits of its own{hint}"
    raise InputError(f"{msg}, expected one of {', '.join(known)}", field="launcher")


def readers() -> dict[str, Reader]:
    """Return the readers of launchers whose files can be read back, by name."""
    found = {name: _reader(name) for name in launcher_names()}
    return {name: reader for name, reader in found.items() if reader is not None}


def _reader(name: str) -> Reader | None:
    if name not in SHIPPED:
        return launcher(name).reader
    home = f"hetopt.export.{name}.reading"
    if find_spec(home) is None:
        return None
    found: Reader = import_module(home).READER
    return found


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
    """Whether a reader recognises a folder; an InputError of the test means no."""
    try:
        return reads.looks_like(folder)
    except InputError:
        return False
