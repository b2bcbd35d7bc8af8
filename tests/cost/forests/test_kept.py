"""Forests that ship are those that what ships with them would grow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks.operator_forests import FOLDER, lessons
from hetopt.cost.forests import kept
from hetopt.cost.operators.relatives import shipped_operators
from hetopt.cost.operators.work import SETTINGS
from hetopt.problem.catalogue import accelerators, forest_files

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.cost.forests.forest import Forest

LESSONS = lessons()
#: The smallest of them.
SMALL = shipped_operators(accelerators()["B200"])["memory"]


def _is_whole(key: str) -> bool:
    """Whether an array is as long however ties were broken."""
    return key.endswith(("names", "rates", "nodes"))


def found(lesson: kept.Lesson) -> Forest | None:
    samples, _ = lesson.known()
    return lesson.shipped(samples.widths)


def test_there_is_a_file_for_every_class_that_is_asked_for() -> None:
    assert list(forest_files()) == sorted(LESSONS), (
        "run python -m benchmarks.operator_forests"
    )
    assert sum(len(file.read_bytes()) for file in forest_files().values()) < 3e6
    assert FOLDER.is_dir()


@pytest.mark.parametrize("name", LESSONS)
def test_what_ships_is_what_would_grow(name: str) -> None:
    lesson = LESSONS[name]
    ours, fresh = found(lesson), lesson.grown()
    assert ours is not None, "run python -m benchmarks.operator_forests"
    arrays, others = ours.arrays(), fresh.arrays()
    assert {
        key: len(np.atleast_1d(arrays[key])) for key in arrays if _is_whole(key)
    } == {key: len(np.atleast_1d(others[key])) for key in others if _is_whole(key)}
    for key in arrays:
        if key.endswith("rates"):
            assert arrays[key] == pytest.approx(others[key], rel=1e-6), key
    # Of two splits that are as good either may have been taken, before what trees learn
    # from was rounded: what they learnt is the same.
    known, _ = lesson.known()
    assert ours.predict_s(known) == pytest.approx(fresh.predict_s(known), rel=1e-6)


def test_what_has_changed_is_not_answered_by_the_old_forest() -> None:
    assert found(SMALL.lesson) is not None
    rates = replace(SMALL.rates, flops=SMALL.rates.flops / 2)
    changed = SMALL.text.rstrip("\n") + "\n" + SMALL.text.splitlines()[-1] + "\n"
    assert found(replace(SMALL, text=changed).lesson) is None
    assert found(replace(SMALL, rates=rates).lesson) is None
    assert found(replace(SMALL, name="mine.csv").lesson) is None


def test_other_settings_grow_another_forest(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(SETTINGS[SMALL.op], trees=3)
    monkeypatch.setitem(SETTINGS, SMALL.op, settings)
    assert found(SMALL.lesson) is None


@pytest.mark.parametrize("content", [b"", b"PK", b"\x93NUMPY", None])
def test_a_broken_file_is_not_taken(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.npz"
    if content is None:
        np.savez(path, allow_pickle=False, digest=np.array(SMALL.lesson.digest))
    else:
        path.write_bytes(content)
    files = {SMALL.lesson.stem: path}
    monkeypatch.setattr(kept, "forest_files", lambda: files)
    assert found(SMALL.lesson) is None
