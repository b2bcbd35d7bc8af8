"""Counts with their nouns, and names as text."""

from __future__ import annotations

import pytest

from hetopt.base.words import counted


@pytest.mark.parametrize(
    ("number", "noun", "expected"),
    [
        (0, ("stage", "s"), "0 stages"),
        (1, ("stage", "s"), "1 stage"),
        (2, ("pipeline stage", "s"), "2 pipeline stages"),
        (1, ("micro-batch", "es"), "1 micro-batch"),
        (18, ("micro-batch", "es"), "18 micro-batches"),
        (1, ("strategy", "ies"), "1 strategy"),
        (3, ("strategy", "ies"), "3 strategies"),
    ],
)
def test_a_number_with_its_noun(
    number: int, noun: tuple[str, str], expected: str
) -> None:
    assert counted(number, *noun) == expected
