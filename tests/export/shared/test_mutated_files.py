"""Bundles with one value or word changed are read, or refused in one line."""

from __future__ import annotations

import json
import re
from functools import cache
from random import Random
from typing import TYPE_CHECKING

import pytest
import yaml

from hetopt.errors import HetoptError
from hetopt.export.bundle import bundle
from hetopt.export.registry import launcher, reader, readers
from tests.export.jobs import as_llama, draw_job
from tests.mutations import mutations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hetopt.export.launcher import Reader
    from hetopt.problem.training.choices import ScheduleName

#: What takes the place of a word in files that are neither YAML nor JSON.
WORDS = (
    *("", "x", "-1", "0", "1.5", "1e999", "None", "1:x", "9" * 5000, "0x" + "f" * 5000),
    *("[1]", "{}", "(", "'", '"', "$(", "#", "\x00", "1 2", "-" * 3000 + "1"),
)
WORD = re.compile(r"[\w.:+-]+|\"[^\"\n]*\"|'[^'\n]*'|[()\[\]{}=,*|]")
#: Changes of each file of a bundle.
CHANGES = 25


@cache
def files_of(name: str, seed: int) -> dict[str, str]:
    """Return what is read of a launcher's bundle, one script for all of its nodes."""
    schedule: ScheduleName = "gpipe" if name == "hexiscale" else "1f1b"
    drawn = draw_job(seed, alike=True, cp=False, schedules=(schedule,))
    job = as_llama(drawn) if name in ("hetu", "hexiscale") else drawn
    files = bundle(job, launcher(name), allow_lossy=True)
    scripts = [path for path in files if path.startswith("nodes/")]
    left = {"README.md", "LOSSY.md", *scripts[1:]}
    return {
        path: text
        for path, text in files.items()
        if path not in left and not path.startswith("program/")
    }


def changed(text: str, path: str, random: Random) -> Iterator[str]:
    """Yield a file with one change, a few times."""
    if path.endswith((".json", ".yaml")):
        dump = json.dumps if path.endswith(".json") else yaml.safe_dump
        every = list(mutations(yaml.safe_load(text)))
        yield from (
            str(dump(each.document)) for each in random.choices(every, k=CHANGES)
        )
        return
    words = list(WORD.finditer(text))
    for match in random.choices(words, k=CHANGES):
        yield text[: match.start()] + random.choice(WORDS) + text[match.end() :]


def complaint(reads: Reader, folder: Path) -> str | None:
    """Return why a folder is refused; None if it is read."""
    try:
        reads.read(folder)
    except HetoptError as error:
        return str(error)
    return None


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", sorted(readers()))
@pytest.mark.quick_seeds(1)
def test_a_changed_file_is_read_or_refused(
    name: str, seed: int, tmp_path: Path
) -> None:
    files, random = files_of(name, seed), Random(seed)
    for path, text in files.items():
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(text)
    reads = reader(tmp_path, name)
    reads.read(tmp_path)
    refused = 0
    for path, text in files.items():
        for other in changed(text, path, random):
            (tmp_path / path).write_text(other)
            said = complaint(reads, tmp_path)
            refused += said is not None
            assert "\n" not in (said or "")
        (tmp_path / path).write_text(text)
    assert refused
