"""Where a folder's files say that its ranks run."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.reading import read_text
from hetopt.words import describe

if TYPE_CHECKING:
    from pathlib import Path

#: Host and cluster of every rank, in rank order; the cluster where the files name one.
RankHosts = tuple[tuple[str, str | None], ...]

#: No job has more.
MOST_RANKS = 1_000_000


def rank_hosts(folder: Path) -> RankHosts | None:
    """Read ``ranks.csv``, else ``hostfile``; None if there is neither.

    Raises
    ------
    InputError
        The file there is cannot be read; it names the line.
    """
    if (folder / "ranks.csv").exists():
        return _from_ranks(folder / "ranks.csv")
    if (folder / "hostfile").exists():
        return _from_hostfile(folder / "hostfile")
    return None


def ensure_ranks(count: int, path: Path) -> None:
    """Raise InputError if a file's hosts have more ranks than any job."""
    if count > MOST_RANKS:
        msg = f"has more than {MOST_RANKS} ranks"
        raise InputError(msg, file=str(path))


def stage_places(
    places: RankHosts | None, stages: int, each: int, file: str
) -> list[tuple[str | None, tuple[str, ...]]]:
    """Return cluster and hosts of every stage of ``each`` ranks, in pipeline order.

    Raises
    ------
    InputError
        There are not as many ranks as the stages need.
    """
    if places is None:
        return [(None, ())] * stages
    if len(places) != stages * each:
        msg = f"names {len(places)} ranks, expected {stages} stages of {each} each"
        raise InputError(msg, file=file)
    found = []
    for stage in range(stages):
        held = places[stage * each : (stage + 1) * each]
        clusters = {cluster for _, cluster in held}
        if len(clusters) > 1:
            msg = f"places stage {stage} on {', '.join(sorted(map(str, clusters)))}"
            raise InputError(msg, file=file)
        found.append((held[0][1], tuple(host for host, _ in held)))
    return found


def _from_ranks(path: Path) -> RankHosts:
    places = []
    text = read_text(path, "a list of ranks")
    try:
        for number, row in enumerate(csv.DictReader(io.StringIO(text, newline=""))):
            if row.get("global_rank") != str(number) or not row.get("host"):
                msg = f"expected rank {number} and its host"
                raise InputError(msg, file=str(path), line=number + 2)
            places.append((str(row["host"]), row.get("cluster") or None))
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}", file=str(path)) from error
    return tuple(places)


def _from_hostfile(path: Path) -> RankHosts:
    places: list[tuple[str, str | None]] = []
    for number, line in enumerate(read_text(path, "a hostfile").splitlines(), start=1):
        words = line.split("#")[0].split()
        if not words:
            continue
        slots = re.search(r"\bslots=([0-9]{1,6})\b", line)
        if slots is None:
            msg = f"is {describe(line.strip())}, expected a host and its slots=N"
            raise InputError(msg, file=str(path), line=number)
        ensure_ranks(len(places) + int(slots[1]), path)
        places += [(words[0], None)] * int(slots[1])
    return tuple(places)
