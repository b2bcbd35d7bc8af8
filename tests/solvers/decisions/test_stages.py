"""How many micro-batches fit on a stage."""

from __future__ import annotations

import pytest

from hetopt.solvers.decisions.stages import most_in_flight


@pytest.mark.parametrize(
    ("usable", "base", "each", "fit"),
    [
        (10, 3, 2, 3),
        (10, 3, 1, 4),
        (10, 11, 2, 0),
        (10, 10, 0, 4),
        (10, 11, 0, 0),
        (100, 40, 20, 3),
        (100, 60, 20, 2),
    ],
)
def test_most_in_flight(usable: int, base: int, each: int, fit: int) -> None:
    assert most_in_flight(usable, base, each, 4) == fit
