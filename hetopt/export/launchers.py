"""Launchers by the names that users give them."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.words import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hetopt.export.launcher import Launcher
    from hetopt.export.sketch import Reader

#: Name -> module with a ``LAUNCHER``.
LAUNCHERS: Mapping[str, str] = MappingProxyType(
    {
        "flagscale": "hetopt.export.flagscale",
        "hetu": "hetopt.export.hetu",
        "hexiscale": "hetopt.export.hexiscale",
        "megatron": "hetopt.export.megatron",
        "nemo": "hetopt.export.nemo",
        "slurm": "hetopt.export.slurm",
        "torch": "hetopt.export.torch_pipelining",
        "torchrun": "hetopt.export.torchrun",
        "torchtitan": "hetopt.export.torchtitan",
    }
)

#: Those that ``hetopt plan --for`` plans for, as in ``hetopt.export.limits``.
LIMITED = ("flagscale", "hetu", "hexiscale", "megatron", "nemo", "torch")
#: What to say of the others.
_ANY = " (it starts any plan: leave --for out)"
UNLIMITED: Mapping[str, str] = MappingProxyType(
    {
        "slurm": _ANY,
        "torchrun": _ANY,
        "torchtitan": " (its pipelines are those of torch.distributed.pipelining: use "
        "--for torch)",
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
        known = ", ".join(LAUNCHERS)
        hint = suggest(name, LAUNCHERS)
        msg = f"there is no launcher {name!r}{hint}, expected one of {known}"
        raise InputError(msg, field="--to")
    found: Launcher = import_module(LAUNCHERS[name]).LAUNCHER
    return found


def readers() -> dict[str, Reader]:
    """Return the launchers whose files can be read back, by name."""
    found = {name: import_module(module).LAUNCHER for name, module in LAUNCHERS.items()}
    return {name: each for name, each in found.items() if hasattr(each, "read")}


def reader(folder: Path, name: str | None) -> Reader:
    """Return the reader of a folder: the one of this name, or who recognises it.

    Raises
    ------
    InputError
        There is no such folder or reader, or the folder could be anyone's.
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
    found = [each for each, reads in known.items() if reads.recognises(folder)]
    if len(found) == 1:
        return known[found[0]]
    could = f"could be of {' or '.join(found)}" if found else "is of no known launcher"
    msg = f"{could}: name one with --from: {', '.join(known)}"
    raise InputError(msg, file=str(folder))
