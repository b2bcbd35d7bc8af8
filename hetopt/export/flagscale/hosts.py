"""The hosts a FlagScale experiment runs on, with the processes it starts there."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING

from hetopt.base.reading import is_there
from hetopt.base.words import counted, describe
from hetopt.export.shared.hosts import HostFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hetopt.export.flagscale.experiment import Experiment

_LINE = re.compile(r"(\S+)\s+slots=([0-9]{1,6})(?:\s+type=(\S+))?(?:\s+#.*)?")


def hosts_of(found: Experiment, needed: Mapping[str, int]) -> list[str]:
    """Return the host of every rank; empty if the folder lacks the hostfile.

    Parameters
    ----------
    needed
        Device type of the meshes -> devices of its meshes, in rank order.

    Raises
    ------
    InputError
        A line is malformed, a host is there twice, types are missing or unknown, or
        hosts have more or fewer devices of a type than its meshes need.
    """
    path = _path(found)
    if path is None:
        return []
    file = HostFile(path)
    hosts = [_host(file, number, line, [*needed]) for number, line in file.lines]
    if not hosts:
        raise file.wrong("names no host")
    for name, times in Counter(name for name, _, _ in hosts).items():
        if times > 1:
            raise file.wrong(f"names host {name} twice")
    file.ensure_ranks(sum(slots for _, slots, _ in hosts))
    hosts = hosts[: found.nodes()]
    most = _visible(found)
    ranks: list[str] = []
    for kind, count in needed.items():
        own = [
            name
            for name, slots, its_kind in hosts
            if its_kind == kind
            for _ in range(min(slots, most or slots))
        ]
        if hosts and len(own) != count:
            msg = (
                f"has {counted(len(own), 'device')} of type {describe(kind)}, its "
                f"meshes need {count}: list as many, or ranks run on devices of "
                "another type"
            )
            raise file.wrong(msg)
        ranks += own
    return ranks


def _path(found: Experiment) -> Path | None:
    name = found.hostfile()
    if name is None:
        return None
    homes = (found.folder / name, found.folder / PurePath(name).name)
    return next(filter(is_there, homes), None)


def _host(
    file: HostFile, number: int, line: str, kinds: list[str]
) -> tuple[str, int, str]:
    """Return a host, the processes started there, and their device type."""
    match = _LINE.fullmatch(line)
    if match is None or int(match[2]) < 1:
        raise file.unreadable(line, number, "a host, slots=N and type=NAME")
    kind = match[3] or (kinds[0] if len(kinds) == 1 else None)
    if kind is None or kind not in kinds:
        what = f"type {describe(kind)}" if kind else "no type"
        raise file.wrong(f"has {what}, expected one of {', '.join(kinds)}", number)
    return match[1], int(match[2]), kind


def _visible(found: Experiment) -> int | None:
    """Return the most processes on a host that visible devices permit, if set."""
    devices = found.section("envs").get("CUDA_VISIBLE_DEVICES")
    return len(devices.split(",")) if isinstance(devices, str) else None
