"""Devices of a node, from Slurm's GRES."""

from __future__ import annotations

import pytest

from hetopt.inventory.gres import parse_gres


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu:4", [(None, 4)]),
        ("gpu:(null):4", [(None, 4)]),
        ("gpu:a100:4(S:0-1)", [("a100", 4)]),
        ("gpu:a100:0", []),
    ],
)
def test_types_that_are_not_known_are_none(
    text: str, expected: list[tuple[str | None, int]]
) -> None:
    assert [(each.label, each.count) for each in parse_gres(text)] == expected
