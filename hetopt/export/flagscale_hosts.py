"""The hosts a FlagScale experiment runs on, with the processes it starts there."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hetopt.errors import InputError
from hetopt.export.rank_hosts import ensure_ranks
from hetopt.reading import read_text
from hetopt.words import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.export.flagscale_arguments import Experiment

_LINE = re.compile(r"(\S+)\s+slots=([0-9]{1,6})(?:\s+type=(\S+))?(?:\s+#.*)?")


class Host(NamedTuple):
    """A host, the processes started there, and their device type."""

    name: str
    slots: int
    kind: str
    file: str


def hosts_of(found: Experiment, types: Sequence[str]) -> list[Host]:
    """Return hosts in rank order; none where the experiment's hostfile is not here.

    Parameters
    ----------
    types
        Device types of the meshes.

    Raises
    ------
    InputError
        A line is malformed, a host is there twice, or types are missing or unknown.
    """
    path = _path(found)
    if path is None:
        return []
    hosts = [_host(line, number, path, types) for number, line in _lines(path)]
    if not hosts:
        raise InputError("names no host", file=str(path))
    for name, times in Counter(host.name for host in hosts).items():
        if times > 1:
            raise InputError(f"names host {name} twice", file=str(path))
    ensure_ranks(sum(host.slots for host in hosts), path)
    hosts = hosts[: _count(found, len(hosts))]
    most = _visible(found)
    return [host._replace(slots=min(host.slots, most or host.slots)) for host in hosts]


def _path(found: Experiment) -> Path | None:
    runner = _runner(found)
    named = Path(str(runner.get("hostfile", "hostfile")))
    for path in (found.folder / named, found.folder / named.name):
        if path.exists():
            return path
    return None


def _lines(path: Path) -> list[tuple[int, str]]:
    lines = enumerate(read_text(path, "a hostfile").splitlines(), start=1)
    return [
        (number, line.strip())
        for number, line in lines
        if line.strip() and not line.strip().startswith("#")
    ]


def _host(line: str, number: int, path: Path, types: Sequence[str]) -> Host:
    match = _LINE.fullmatch(line)
    if match is None or int(match[2]) < 1:
        msg = f"is {describe(line)}, expected a host, slots=N and type=NAME"
        raise InputError(msg, file=str(path), line=number)
    kind = match[3]
    if kind is None:
        if len(set(types)) > 1:
            msg = f"has no type, expected one of {', '.join(dict.fromkeys(types))}"
            raise InputError(msg, file=str(path), line=number)
        kind = types[0]
    if kind not in types:
        msg = f"has type {kind}, expected one of {', '.join(dict.fromkeys(types))}"
        raise InputError(msg, file=str(path), line=number)
    return Host(match[1], int(match[2]), kind, str(path))


def _count(found: Experiment, most: int) -> int:
    """Return how many hosts are used: FlagScale takes the first ``nnodes``."""
    stated = str(_runner(found).get("nnodes", most)).partition(":")[0]
    return min(most, int(stated)) if re.fullmatch("[0-9]{1,9}", stated) else most


def _visible(found: Experiment) -> int | None:
    """Return the most processes on a host that visible devices permit."""
    devices = _section(found, "envs").get("CUDA_VISIBLE_DEVICES")
    return len(devices.split(",")) if isinstance(devices, str) else None


def _runner(found: Experiment) -> dict[str, Any]:
    return _section(found, "runner")


def _section(found: Experiment, name: str) -> dict[str, Any]:
    if found.document is None:
        return {}
    experiment = found.document.data["experiment"]
    section = experiment.get(name) if isinstance(experiment, dict) else None
    return section if isinstance(section, dict) else {}
