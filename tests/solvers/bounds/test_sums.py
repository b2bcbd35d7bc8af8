"""Sums of clusters, in one call of machine code or in many."""

from __future__ import annotations

import numpy as np
import pytest

from hetopt.solvers.bounds import sums


@pytest.mark.parametrize("most_steps", [1, 50, sums._MOST_STEPS])
def test_min_plus_is_that_of_all_pairs(
    most_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    before, costs = rng.random((3, 5)), rng.random((4, 5))
    before[rng.random(before.shape) < 0.3] = np.inf
    costs[rng.random(costs.shape) < 0.3] = np.inf
    after = rng.random((4, 5)) + 0.5
    expected = after.copy()
    for (s, u), one in np.ndenumerate(before):
        for (m, n), other in np.ndenumerate(costs):
            if s + m < 4 and u + n < 5:
                expected[s + m, u + n] = min(expected[s + m, u + n], one + other)
    monkeypatch.setattr(sums, "_MOST_STEPS", most_steps)
    sums.min_plus(before, costs, after)
    assert after.tolist() == expected.tolist()
