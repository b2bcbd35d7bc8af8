"""Answers of brute force, in a file for each batch of seeds; made if missing."""

from __future__ import annotations

import os
import pickle
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

import hetopt
from tests.agreement.generator import features_of, make
from tests.oracle import brute_force

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.agreement.generator import Features
    from tests.oracle.brute_force import Answer
    from tests.oracle.instances import Instance

#: Parts of hetopt that instances and answers depend on.
_PARTS = ("base", "check/plan", "cost", "plans", "problem", "schedule")
#: Batches of answers made from other sources that are left in the folder.
_MOST_FILES = 2000


@cache
def _sources() -> str:
    """Return a digest of all that instances and their answers are made by."""
    product, tests = Path(hetopt.__file__).parent, Path(__file__).parents[1]
    folders = [product / part for part in _PARTS]
    folders += [tests / "agreement", tests / "oracle"]
    digest = sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def answer_to(features: Features, instance: Instance) -> Answer:
    """Return what brute force finds, by the objective and principles of an instance.

    Sequences of several lengths have a brute force of their own.
    """
    if features.lengths:
        return brute_force.Answer(shapes=(), plans=0)
    return brute_force.solve(
        instance.problem,
        instance.table,
        features.principles,
        simulated=features.objective == "simulated",
    )


def answers(seeds: Sequence[int]) -> dict[int, Answer]:
    """Return the answers to instances, from their file if there is one."""
    folder = user_cache_path("hetopt", appauthor=False) / "agreement"
    path = folder / f"{_sources()}-{seeds[0]}-{seeds[-1]}"
    try:
        known: dict[int, Answer] = pickle.loads(path.read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError):
        known = {}
    if set(known) == set(seeds):
        return known
    drawn = map(features_of, seeds)
    found = {each.seed: answer_to(each, make(each)) for each in drawn}
    folder.mkdir(parents=True, exist_ok=True)
    if len(files := sorted(folder.iterdir())) > _MOST_FILES:
        for file in files:
            file.unlink(missing_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(pickle.dumps(found))
    part.replace(path)
    return found
