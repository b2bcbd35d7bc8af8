"""The hosts of ranks, read from the files of a folder."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from hetopt.base.reading import is_there, read_text
from hetopt.base.words import counted, describe
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from hetopt.export.pipeline import StagePlace

#: Host and cluster of every rank, in rank order; the cluster if the files name one.
RankHosts = tuple[tuple[str, str | None], ...]

#: Jobs with more ranks than this are refused.
MOST_RANKS = 1_000_000


def on_first_hosts(places: RankHosts, count: int) -> RankHosts:
    """Return the ranks on the first hosts."""
    kept = set(list(dict.fromkeys(host for host, _ in places))[:count])
    return tuple(place for place in places if place[0] in kept)


class HostFile:
    """The lines of a hostfile without blank lines and comments.

    Attributes
    ----------
    lines
        Number from 1 and text of each line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = enumerate(read_text(path, "a hostfile").splitlines(), start=1)
        stripped = [(number, line.strip()) for number, line in lines]
        self.lines = [
            (number, line)
            for number, line in stripped
            if line and not line.startswith("#")
        ]

    def wrong(self, what: str, line: int | None = None) -> InputError:
        """Return the error that says ``what`` about the file or a line of it."""
        return InputError(what, file=str(self._path), line=line)

    def unreadable(self, line: str, number: int, expected: str) -> InputError:
        """Return the error that a line is not what is expected."""
        return self.wrong(f"is {describe(line)}, expected {expected}", number)

    def ensure_ranks(self, count: int) -> None:
        """Raise InputError if the hosts have more ranks than any job."""
        if count > MOST_RANKS:
            raise self.wrong(f"has more than {MOST_RANKS} ranks")


def rank_hosts(folder: Path, hostfile: str | None = "hostfile") -> RankHosts | None:
    """Read ``ranks.csv``, else a hostfile; None if there is neither.

    Parameters
    ----------
    hostfile
        Its name in the folder; None to read none.

    Raises
    ------
    InputError
        The file cannot be read; the error names the line.
    """
    if (folder / "ranks.csv").exists():
        return _from_ranks(folder / "ranks.csv")
    if hostfile is not None and is_there(folder / hostfile):
        return _from_hostfile(folder / hostfile)
    return None


def stage_places(
    places: RankHosts | None,
    ranks: Sequence[Iterable[int]],
    file: str,
    field: str | None = None,
) -> list[StagePlace]:
    """Return cluster and hosts of every stage.

    Parameters
    ----------
    ranks
        Ranks of each stage, in pipeline order.
    file, field
        What an error names.

    Raises
    ------
    InputError
        The ranks of a stage are on several clusters.
    """
    if places is None:
        return [(None, ())] * len(ranks)
    found: list[StagePlace] = []
    for stage, own in enumerate(ranks):
        held = [places[rank] for rank in own]
        clusters = {cluster for _, cluster in held}
        if len(clusters) > 1:
            names = ", ".join(sorted(map(describe, clusters)))
            msg = f"places stage {stage} on {names}, expected one cluster"
            raise InputError(msg, file=file, field=field)
        found.append((held[0][1], tuple(host for host, _ in held)))
    return found


def even_places(
    places: RankHosts | None, stages: int, each: int, file: str
) -> list[StagePlace]:
    """Return cluster and hosts of stages with ``each`` ranks, in pipeline order.

    Raises
    ------
    InputError
        There are not as many ranks as the stages need; and as ``stage_places``.
    """
    if places is not None and len(places) != stages * each:
        msg = (
            f"names {counted(len(places), 'rank')}, expected "
            f"{counted(stages, 'stage')} of {each} each"
        )
        raise InputError(msg, file=file)
    ranks = [range(stage * each, (stage + 1) * each) for stage in range(stages)]
    return stage_places(places, ranks, file)


def _from_ranks(path: Path) -> RankHosts:
    places = []
    text = read_text(path, "a list of ranks")
    try:
        for number, row in enumerate(csv.DictReader(io.StringIO(text, newline=""))):
            for key, value, fits in (
                ("global_rank", number, row.get("global_rank") == str(number)),
                ("host", "the rank's host", row.get("host")),
            ):
                if not fits:
                    msg = f"is {describe(row.get(key))}, expected {value}"
                    raise InputError(msg, file=str(path), line=number + 2, field=key)
            places.append((str(row["host"]), row.get("cluster") or None))
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}", file=str(path)) from error
    return tuple(places)


def _from_hostfile(path: Path) -> RankHosts:
    places: list[tuple[str, str | None]] = []
    file = HostFile(path)
    for number, line in file.lines:
        slots = re.search(r"\bslots=([0-9]{1,6})\b", line)
        if slots is None:
            raise file.unreadable(line, number, "a host and its slots=N")
        file.ensure_ranks(len(places) + int(slots[1]))
        places += [(line.split("#")[0].split()[0], None)] * int(slots[1])
    return tuple(places)
